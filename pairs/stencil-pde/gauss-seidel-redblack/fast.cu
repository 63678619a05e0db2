// A warp marches down a strip of 128 columns, four to a lane, and carries four half sweeps (red, black, red,
// black) in registers: half sweep t relaxes row y - t when input row y arrives. The outer lanes are halo.
#define HALVES 4
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

__device__ __forceinline__ float relax(float a, float b, float c, float d, float f)
{
    return 0.25f * (a + b + c + d + f);
}

template <bool ALIGNED>
__device__ __forceinline__ void march(const float *__restrict__ from, const float *__restrict__ f,
                                      float *__restrict__ to, int height, int width, int x)
{
    const int lane = threadIdx.x % 32;
    const int first = blockIdx.y * ROWS;
    const int last = min(first + ROWS, height);
    const bool keeps = lane > 0 && lane < 31 && x < width;
    const bool free_x = x > 0 && x < width - 1, free_y = x + 1 > 0 && x + 1 < width - 1;
    const bool free_z = x + 2 > 0 && x + 2 < width - 1, free_w = x + 3 > 0 && x + 3 < width - 1;
    float4 up[HALVES], mid[HALVES], source[HALVES];
#pragma unroll
    for (int t = 0; t < HALVES; t++)
        up[t] = mid[t] = source[t] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 ahead = load_row<ALIGNED>(from, first - HALVES, x, height, width);
#pragma unroll 2
    for (int y = first - HALVES; y < last + HALVES; y++) {
        float4 fresh = ahead;
        ahead = load_row<ALIGNED>(from, y + 1, x, height, width);
#pragma unroll
        for (int t = HALVES - 1; t > 0; t--)
            source[t] = source[t - 1];
        source[0] = load_row<ALIGNED>(f, y - 1, x, height, width);
#pragma unroll
        for (int t = 0; t < HALVES; t++) {
            const int row = y - t - 1;
            const float4 here = mid[t];
            const float left = __shfl_up_sync(0xffffffffu, here.w, 1);
            const float right = __shfl_down_sync(0xffffffffu, here.x, 1);
            float4 next = here;
            if (row > 0 && row < height - 1) {
                if ((row + t) % 2 == 0) {
                    next.x = free_x ? relax(left, here.y, up[t].x, fresh.x, source[t].x) : here.x;
                    next.z = free_z ? relax(here.y, here.w, up[t].z, fresh.z, source[t].z) : here.z;
                } else {
                    next.y = free_y ? relax(here.x, here.z, up[t].y, fresh.y, source[t].y) : here.y;
                    next.w = free_w ? relax(here.z, right, up[t].w, fresh.w, source[t].w) : here.w;
                }
            }
            up[t] = here;
            mid[t] = fresh;
            fresh = next;
        }
        const int done = y - HALVES;
        if (done >= first && done < last && keeps)
            store_row<ALIGNED>(to, done, x, width, fresh);
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    relax_twice(const float *__restrict__ from, const float *__restrict__ f, float *__restrict__ to, int height,
                int width)
{
    const int strip = (blockIdx.x * WARPS + threadIdx.x / 32) * STRIP;
    const int x = strip + 4 * (threadIdx.x % 32) - 4;
    if (strip >= width)
        return;
    if (width % 4 == 0)
        march<true>(from, f, to, height, width, x);
    else
        march<false>(from, f, to, height, width, x);
}
