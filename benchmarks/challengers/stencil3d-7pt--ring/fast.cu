// A thread has four columns of a row and marches along z. Planes with their rim arrive in a ring in shared memory, four
// planes ahead, so that enough bytes are on their way whatever the registers hold.
#define TX 128
#define TY 16
#define THREADS (TX / 4 * TY)
#define PLANES 128
#define AHEAD 4
#define SLOTS (AHEAD + 2)
#define WIDE (TX + 8)
#define TALL (TY + 2)
#define QUADS (TALL * WIDE / 4)
#define COPIES ((QUADS + THREADS - 1) / THREADS)

// The quads of each plane that this thread copies.
struct Copies {
    int from[COPIES];
    unsigned to[COPIES];
    bool wanted[COPIES];
};

__device__ __forceinline__ void copy_plane(const float *__restrict__ plane, const Copies &copies, unsigned slot)
{
#pragma unroll
    for (int i = 0; i < COPIES; i++)
        if (copies.wanted[i])
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(copies.to[i] +
                                                                          slot * static_cast<unsigned>(TALL * WIDE * 4)),
                         "l"(plane + copies.from[i])
                         : "memory");
}

__device__ __forceinline__ void close_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ void march4(const float *__restrict__ in, float *__restrict__ out, int depth, int height, int width,
                       float centre, float side)
{
    extern __shared__ __align__(16) float ring[];
    const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * (TX / 4) + tx;
    const int left = blockIdx.x * TX, top = blockIdx.y * TY, x = left + 4 * tx, y = top + ty;
    const int first = blockIdx.z * PLANES, last = min(first + PLANES, depth), end = min(last + 1, depth);
    const size_t plane = static_cast<size_t>(height) * width;
    const bool exists = x < width && y < height, inner = exists && y > 0 && y < height - 1;
    Copies copies;
#pragma unroll
    for (int i = 0; i < COPIES; i++) {
        const int item = thread + i * THREADS, row = item / (WIDE / 4), col = item % (WIDE / 4) * 4;
        const int from_x = left - 4 + col, from_y = top - 1 + row;
        copies.wanted[i] = item < QUADS && from_x >= 0 && from_x < width && from_y >= 0 && from_y < height;
        copies.from[i] = from_y * width + from_x;
        copies.to[i] = static_cast<unsigned>(__cvta_generic_to_shared(ring)) + (row * WIDE + col) * 4;
    }
#pragma unroll
    for (int p = 0; p < AHEAD + 1; p++) {
        if (first + p < end)
            copy_plane(in + (first + p) * plane, copies, p);
        close_group();
    }
    size_t at = first * plane + static_cast<size_t>(y) * width + x;
    const int own = (ty + 1) * WIDE + 4 * tx + 4;
    float4 below = make_float4(0.0f, 0.0f, 0.0f, 0.0f), here = below;
    if (exists && first > 0)
        below = __ldg(reinterpret_cast<const float4 *>(in + at - plane));
    if (exists)
        here = __ldg(reinterpret_cast<const float4 *>(in + at));
    unsigned slot = 0;
#pragma unroll 2
    for (int z = first; z < last; z++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
        __syncthreads();
        const unsigned next = slot + 1 < SLOTS ? slot + 1 : 0, free = slot > 0 ? slot - 1 : SLOTS - 1;
        if (z + 1 + AHEAD < end)
            copy_plane(in + (z + 1 + AHEAD) * plane, copies, free);
        close_group();
        const float *tile = ring + slot * (TALL * WIDE) + own;
        const float4 above = *reinterpret_cast<const float4 *>(ring + next * (TALL * WIDE) + own);
        float4 result = here;
        if (inner && z > 0 && z < depth - 1) {
            const float4 north = *reinterpret_cast<const float4 *>(tile - WIDE);
            const float4 south = *reinterpret_cast<const float4 *>(tile + WIDE);
            if (x > 0)
                result.x = centre * here.x + side * (tile[-1] + here.y + north.x + south.x + below.x + above.x);
            result.y = centre * here.y + side * (here.x + here.z + north.y + south.y + below.y + above.y);
            result.z = centre * here.z + side * (here.y + here.w + north.z + south.z + below.z + above.z);
            if (x + 4 < width)
                result.w = centre * here.w + side * (here.z + tile[4] + north.w + south.w + below.w + above.w);
        }
        if (exists)
            __stcs(reinterpret_cast<float4 *>(out + at), result);
        at += plane;
        below = here;
        here = above;
        slot = next;
    }
}

__device__ void march1(const float *__restrict__ in, float *__restrict__ out, int depth, int height, int width,
                       float centre, float side)
{
    const int y = blockIdx.y * TY + threadIdx.y, first = blockIdx.z * PLANES;
    if (y >= height)
        return;
    const size_t plane = static_cast<size_t>(height) * width;
    for (int z = first; z < min(first + PLANES, depth); z++) {
        for (int x = blockIdx.x * TX + threadIdx.x; x < min((blockIdx.x + 1) * TX, width); x += TX / 4) {
            const size_t at = z * plane + static_cast<size_t>(y) * width + x;
            float result = in[at];
            if (x > 0 && x < width - 1 && y > 0 && y < height - 1 && z > 0 && z < depth - 1)
                result = centre * result + side * (in[at - 1] + in[at + 1] + in[at - width] + in[at + width] +
                                                   in[at - plane] + in[at + plane]);
            out[at] = result;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    stencil7(const float *__restrict__ in, float *__restrict__ out, int depth, int height, int width, float centre,
             float side)
{
    if (width % 4 == 0)
        march4(in, out, depth, height, width, centre, side);
    else
        march1(in, out, depth, height, width, centre, side);
}
