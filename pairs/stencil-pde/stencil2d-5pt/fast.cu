// A thread marches through a band of rows, four columns wide, with four rows under way. Every other band marches
// upwards, so that neighbours read the rows they share at the same time: memory gives them once, the second level of
// cache the second time.
#define ROWS 64
#define THREADS 128
#define AHEAD 4
#define ALL 0xffffffffu

// Four columns of a row and the one beside the warp's 128, in its first and last lane.
struct Row {
    float4 v;
    float beside;
};

__device__ __forceinline__ Row load_row(const float *__restrict__ in, int y, int x, int height, int width)
{
    Row r = {make_float4(0.0f, 0.0f, 0.0f, 0.0f), 0.0f};
    if (y < 0 || y >= height || x >= width)
        return r;
    const float *at = in + static_cast<size_t>(y) * width + x;
    const int lane = threadIdx.x % 32;
    r.v = __ldg(reinterpret_cast<const float4 *>(at));
    if ((lane == 0 && x > 0) || (lane == 31 && x + 4 < width))
        r.beside = __ldg(at + (lane == 0 ? -1 : 4));
    return r;
}

__device__ __forceinline__ void put_row(float *__restrict__ out, int y, int x, int height, int width, const Row &here,
                                        const float4 &before, const float4 &after, float centre, float side)
{
    const int lane = threadIdx.x % 32;
    float left = __shfl_up_sync(ALL, here.v.w, 1), right = __shfl_down_sync(ALL, here.v.x, 1);
    left = lane == 0 ? here.beside : left;
    right = lane == 31 ? here.beside : right;
    float4 result = here.v;
    if (y > 0 && y < height - 1) {
        if (x > 0)
            result.x = centre * here.v.x + side * (before.x + after.x + left + here.v.y);
        result.y = centre * here.v.y + side * (before.y + after.y + here.v.x + here.v.z);
        result.z = centre * here.v.z + side * (before.z + after.z + here.v.y + here.v.w);
        if (x + 4 < width)
            result.w = centre * here.v.w + side * (before.w + after.w + here.v.z + right);
    }
    if (x < width)
        __stcs(reinterpret_cast<float4 *>(out + static_cast<size_t>(y) * width + x), result);
}

__device__ __forceinline__ void march4(const float *__restrict__ in, float *__restrict__ out, int height, int width,
                                       int x, int first, int count, int step, float centre, float side)
{
    float4 before = load_row(in, first - step, x, height, width).v;
    Row here = load_row(in, first, x, height, width), ahead[AHEAD];
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        ahead[u] = load_row(in, first + step * (u + 1), x, height, width);
    for (int i = 0; i < count; i += AHEAD) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            if (i + u >= count)
                break;
            const int y = first + step * (i + u);
            const Row after = ahead[u];
            if (i + u + AHEAD < count)
                ahead[u] = load_row(in, y + step * (AHEAD + 1), x, height, width);
            put_row(out, y, x, height, width, here, before, after.v, centre, side);
            before = here.v;
            here = after;
        }
    }
}

__device__ void march1(const float *__restrict__ in, float *__restrict__ out, int height, int width, int x,
                       int first, int count, float centre, float side)
{
    for (int y = first; y < first + count; y++) {
        const size_t at = static_cast<size_t>(y) * width + x;
        float result = in[at];
        if (y > 0 && x > 0 && y < height - 1 && x < width - 1)
            result = centre * in[at] + side * (in[at - width] + in[at + width] + in[at - 1] + in[at + 1]);
        out[at] = result;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 8)
    stencil(const float *__restrict__ in, float *__restrict__ out, int height, int width, float centre,
            float side)
{
    const int first = blockIdx.y * ROWS, count = min(ROWS, height - first);
    const int column = blockIdx.x * (4 * THREADS);
    if (width % 4 == 0) {
        const bool down = blockIdx.y % 2 == 0;
        march4(in, out, height, width, column + 4 * threadIdx.x, down ? first : first + count - 1, count, down ? 1 : -1,
               centre, side);
    } else {
        for (int x = column + threadIdx.x; x < min(column + 4 * THREADS, width); x += THREADS)
            march1(in, out, height, width, x, first, count, centre, side);
    }
}
