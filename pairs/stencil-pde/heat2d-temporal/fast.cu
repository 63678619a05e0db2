// A warp marches down a strip of 128 columns, four to a lane, and carries LEVELS time steps in registers:
// when input row y arrives, row y - t of step t follows from three rows of step t - 1. The outer lanes are
// halo (LEVELS columns), so the strip stores its middle 120 columns. Cells of the rim have the factor zero.
#define LEVELS 4
#define ROWS 64
#define STRIP 120
#define WARPS 4

template <bool ALIGNED>
__device__ __forceinline__ float4 load_row(const float *__restrict__ from, int y, int x, int height, int width)
{
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (y < 0 || y >= height || x < 0 || x >= width)
        return v;
    const float *at = from + (size_t)y * width + x;
    if (ALIGNED)
        return __ldg(reinterpret_cast<const float4 *>(at));
    v.x = at[0];
    if (x + 1 < width)
        v.y = at[1];
    if (x + 2 < width)
        v.z = at[2];
    if (x + 3 < width)
        v.w = at[3];
    return v;
}

template <bool ALIGNED>
__device__ __forceinline__ void store_row(float *__restrict__ to, int y, int x, int width, float4 v)
{
    float *at = to + (size_t)y * width + x;
    if (ALIGNED) {
        *reinterpret_cast<float4 *>(at) = v;
        return;
    }
    at[0] = v.x;
    if (x + 1 < width)
        at[1] = v.y;
    if (x + 2 < width)
        at[2] = v.z;
    if (x + 3 < width)
        at[3] = v.w;
}

__device__ __forceinline__ float relax(float here, float a, float b, float c, float d, float k)
{
    return here + k * (a + b + c + d - 4.0f * here);
}

__device__ __forceinline__ float factor(int x, int width, float k)
{
    return x > 0 && x < width - 1 ? k : 0.0f;
}

template <bool ALIGNED>
__device__ __forceinline__ void march(const float *__restrict__ from, float *__restrict__ to, int height, int width,
                                      int x, float k)
{
    const int lane = threadIdx.x % 32;
    const int first = blockIdx.y * ROWS;
    const int last = min(first + ROWS, height);
    const bool keeps = lane > 0 && lane < 31 && x < width;
    const float kx = factor(x, width, k), ky = factor(x + 1, width, k);
    const float kz = factor(x + 2, width, k), kw = factor(x + 3, width, k);
    float4 up[LEVELS], mid[LEVELS];
#pragma unroll
    for (int t = 0; t < LEVELS; t++)
        up[t] = mid[t] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 ahead = load_row<ALIGNED>(from, first - LEVELS, x, height, width);
#pragma unroll 3
    for (int y = first - LEVELS; y < last + LEVELS; y++) {
        float4 fresh = ahead;
        ahead = load_row<ALIGNED>(from, y + 1, x, height, width);
#pragma unroll
        for (int t = 0; t < LEVELS; t++) {
            const int row = y - t - 1;
            const bool inner = row > 0 && row < height - 1;
            const float4 here = mid[t];
            const float left = __shfl_up_sync(0xffffffffu, here.w, 1);
            const float right = __shfl_down_sync(0xffffffffu, here.x, 1);
            float4 next;
            next.x = relax(here.x, up[t].x, fresh.x, left, here.y, inner ? kx : 0.0f);
            next.y = relax(here.y, up[t].y, fresh.y, here.x, here.z, inner ? ky : 0.0f);
            next.z = relax(here.z, up[t].z, fresh.z, here.y, here.w, inner ? kz : 0.0f);
            next.w = relax(here.w, up[t].w, fresh.w, here.z, right, inner ? kw : 0.0f);
            up[t] = here;
            mid[t] = fresh;
            fresh = next;
        }
        const int done = y - LEVELS;
        if (done >= first && done < last && keeps)
            store_row<ALIGNED>(to, done, x, width, fresh);
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    heat_steps(const float *__restrict__ from, float *__restrict__ to, int height, int width, float k)
{
    const int strip = (blockIdx.x * WARPS + threadIdx.x / 32) * STRIP;
    const int x = strip + 4 * (threadIdx.x % 32) - 4;
    if (strip >= width)
        return;
    if (width % 4 == 0)
        march<true>(from, to, height, width, x, k);
    else
        march<false>(from, to, height, width, x, k);
}
