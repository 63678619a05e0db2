// A thread has four columns of a row and marches along z with nine planes of them in registers. Planes with their rim
// of four arrive in a ring in shared memory, AHEAD planes ahead; neighbours are read from it four at a time. What a
// thread needs of the step before last comes to a ring of its own in the same way.
#define R 4
#define TX 128
#define TY 24
#define THREADS (TX / 4 * TY)
#define PLANES 192
#define AHEAD 3
#define SLOTS (1 + R + AHEAD)
#define PREV (AHEAD + 1)
#define WIDE (TX + 2 * R)
#define TALL (TY + 2 * R)
#define QUADS (TALL * WIDE / 4)
#define COPIES ((QUADS + THREADS - 1) / THREADS)
#define SPAN (2 * R + 1)
#define W0 -2.8472222f
#define W1 1.6f
#define W2 -0.2f
#define W3 0.025396826f
#define W4 -0.0017857143f

__device__ __forceinline__ float4 plus(const float4 &a, const float4 &b)
{
    return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ __forceinline__ void add(float4 &sum, float weight, const float4 &v)
{
    sum.x = fmaf(weight, v.x, sum.x);
    sum.y = fmaf(weight, v.y, sum.y);
    sum.z = fmaf(weight, v.z, sum.z);
    sum.w = fmaf(weight, v.w, sum.w);
}

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
                                                                          slot * (TALL * WIDE * 4u)),
                         "l"(plane + copies.from[i])
                         : "memory");
}

__device__ __forceinline__ void copy_four(unsigned to, const float *__restrict__ from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ unsigned slot_after(unsigned slot, unsigned planes)
{
    slot += planes;
    return slot >= SLOTS ? slot - SLOTS : slot;
}

__device__ __forceinline__ void close_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ void march4(const float *__restrict__ prev, const float *__restrict__ cur, float *__restrict__ next,
                       int depth, int height, int width, float c2)
{
    extern __shared__ __align__(16) float ring[];
    const int tx = threadIdx.x, ty = threadIdx.y, thread = ty * (TX / 4) + tx;
    const int left = blockIdx.x * TX, top = blockIdx.y * TY, x = left + 4 * tx, y = top + ty;
    const int first = blockIdx.z * PLANES, last = min(first + PLANES, depth), end = min(last + R, depth);
    const size_t plane = static_cast<size_t>(height) * width;
    const int at = y * width + x;
    const bool exists = x < width && y < height;
    const bool inner = x >= R && y >= R && x < width - R && y < height - R;
    float *const drawers = ring + SLOTS * (TALL * WIDE);
    const unsigned own_drawer = static_cast<unsigned>(__cvta_generic_to_shared(drawers)) + thread * 16;
    Copies copies;
#pragma unroll
    for (int i = 0; i < COPIES; i++) {
        const int item = thread + i * THREADS, row = item / (WIDE / 4), col = item % (WIDE / 4) * 4;
        const int from_x = left - R + col, from_y = top - R + row;
        copies.wanted[i] = item < QUADS && from_x >= 0 && from_x < width && from_y >= 0 && from_y < height;
        copies.from[i] = from_y * width + from_x;
        copies.to[i] = static_cast<unsigned>(__cvta_generic_to_shared(ring)) + (row * WIDE + col) * 4;
    }
#pragma unroll
    for (int p = 0; p < R + AHEAD; p++) {
        if (first + p < end)
            copy_plane(cur + (first + p) * plane, copies, p);
        if (p >= R && inner && first + p - R < last)
            copy_four(own_drawer + (p - R) * (THREADS * 16), prev + (first + p - R) * plane + at);
        close_group();
    }
    const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 queue[SPAN];
#pragma unroll
    for (int i = 0; i < 2 * R; i++) {
        const int z = first - R + i;
        queue[i] = exists && z >= 0 && z < depth ? __ldg(reinterpret_cast<const float4 *>(cur + z * plane + at)) : none;
    }
    size_t place = first * plane + at;
    unsigned slot = 0, drawer = 0;
#pragma unroll 1
    for (int base = first; base < last; base += SPAN) {
#pragma unroll
        for (int k = 0; k < SPAN; k++) {
            const int z = base + k;
            if (z >= last)
                break;
            asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
            __syncthreads();
            if (z + R + AHEAD < end)
                copy_plane(cur + (z + R + AHEAD) * plane, copies, slot_after(slot, R + AHEAD));
            if (inner && z + AHEAD < last)
                copy_four(own_drawer + (drawer + AHEAD) % PREV * (THREADS * 16), prev + place + AHEAD * plane);
            close_group();
            const float *own = ring + slot * (TALL * WIDE) + (ty + R) * WIDE + tx * 4 + R;
            const float *below = ring + slot_after(slot, R) * (TALL * WIDE) + (ty + R) * WIDE + tx * 4 + R;
            queue[(k + 2 * R) % SPAN] = *reinterpret_cast<const float4 *>(below);
            const float4 here = queue[(k + R) % SPAN];
            float4 result = here;
            if (inner && z >= R && z < depth - R) {
                const float4 old = *reinterpret_cast<const float4 *>(drawers + (drawer * THREADS + thread) * 4);
                const float4 west = *reinterpret_cast<const float4 *>(own - R);
                const float4 east = *reinterpret_cast<const float4 *>(own + R);
                const float line[12] = {west.x, west.y, west.z, west.w, here.x, here.y,
                                        here.z, here.w, east.x, east.y, east.z, east.w};
                const float weight[R] = {W1, W2, W3, W4};
                float4 lap =
                    make_float4(3.0f * W0 * here.x, 3.0f * W0 * here.y, 3.0f * W0 * here.z, 3.0f * W0 * here.w);
#pragma unroll
                for (int d = 1; d <= R; d++) {
                    const float4 north = *reinterpret_cast<const float4 *>(own - d * WIDE);
                    const float4 south = *reinterpret_cast<const float4 *>(own + d * WIDE);
                    float4 sum = plus(queue[(k + R - d) % SPAN], queue[(k + R + d) % SPAN]);
                    sum = plus(sum, plus(north, south));
                    const float4 across = make_float4(line[4 - d] + line[4 + d], line[5 - d] + line[5 + d],
                                                      line[6 - d] + line[6 + d], line[7 - d] + line[7 + d]);
                    add(lap, weight[d - 1], plus(sum, across));
                }
                result = make_float4(2.0f * here.x - old.x + c2 * lap.x, 2.0f * here.y - old.y + c2 * lap.y,
                                     2.0f * here.z - old.z + c2 * lap.z, 2.0f * here.w - old.w + c2 * lap.w);
            }
            if (exists)
                __stcs(reinterpret_cast<float4 *>(next + place), result);
            place += plane;
            slot = slot_after(slot, 1);
            drawer = (drawer + 1) % PREV;
        }
    }
}

__device__ void march1(const float *__restrict__ prev, const float *__restrict__ cur, float *__restrict__ next,
                       int depth, int height, int width, float c2)
{
    const int y = blockIdx.y * TY + threadIdx.y, first = blockIdx.z * PLANES;
    if (y >= height)
        return;
    const size_t plane = static_cast<size_t>(height) * width;
    const float weight[R] = {W1, W2, W3, W4};
    for (int z = first; z < min(first + PLANES, depth); z++) {
        for (int x = blockIdx.x * TX + threadIdx.x; x < min((blockIdx.x + 1) * TX, width); x += TX / 4) {
            const size_t at = z * plane + static_cast<size_t>(y) * width + x;
            float result = cur[at];
            if (x >= R && x < width - R && y >= R && y < height - R && z >= R && z < depth - R) {
                float lap = 3.0f * W0 * result;
#pragma unroll
                for (int d = 1; d <= R; d++)
                    lap += weight[d - 1] * (cur[at - d] + cur[at + d] + cur[at - d * width] + cur[at + d * width] +
                                            cur[at - d * plane] + cur[at + d * plane]);
                result = 2.0f * result - prev[at] + c2 * lap;
            }
            next[at] = result;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    wave(const float *__restrict__ prev, const float *__restrict__ cur, float *__restrict__ next, int depth, int height,
         int width, float c2)
{
    if (width % 4 == 0)
        march4(prev, cur, next, depth, height, width, c2);
    else
        march1(prev, cur, next, depth, height, width, c2);
}
