// A warp marches down a strip of 128 columns, four to a lane, and carries LEVELS time steps in registers:
// when input row y arrives, row y - t of step t follows from three rows of step t - 1. The outer lanes are
// halo (LEVELS columns), so the strip stores its middle 120 columns.
#define LEVELS 4
#define ROWS 64
#define STRIP 120
#define WARPS 4

__device__ __forceinline__ float4 load_row(const float *__restrict__ from, int y, int x, int height, int width)
{
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (y < 0 || y >= height || x < 0 || x >= width)
        return v;
    const float *at = from + (size_t)y * width + x;
    if (width % 4 == 0)
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

__device__ __forceinline__ void store_row(float *__restrict__ to, int y, int x, int width, float4 v)
{
    float *at = to + (size_t)y * width + x;
    if (width % 4 == 0) {
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

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    heat_steps(const float *__restrict__ from, float *__restrict__ to, int height, int width, float k)
{
    const int lane = threadIdx.x % 32;
    const int strip = (blockIdx.x * WARPS + threadIdx.x / 32) * STRIP;
    if (strip >= width)
        return;
    const int x = strip + 4 * lane - 4;
    const int first = blockIdx.y * ROWS;
    const int last = min(first + ROWS, height);
    const bool keeps = lane > 0 && lane < 31 && x < width;
    const bool free_x = x > 0 && x < width - 1, free_y = x + 1 > 0 && x + 1 < width - 1;
    const bool free_z = x + 2 > 0 && x + 2 < width - 1, free_w = x + 3 > 0 && x + 3 < width - 1;
    float4 up[LEVELS], mid[LEVELS];
#pragma unroll
    for (int t = 0; t < LEVELS; t++)
        up[t] = mid[t] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 ahead = load_row(from, first - LEVELS, x, height, width);
#pragma unroll 3
    for (int y = first - LEVELS; y < last + LEVELS; y++) {
        float4 fresh = ahead;
        ahead = load_row(from, y + 1, x, height, width);
#pragma unroll
        for (int t = 0; t < LEVELS; t++) {
            const int row = y - t - 1;
            const float4 here = mid[t];
            const float left = __shfl_up_sync(0xffffffffu, here.w, 1);
            const float right = __shfl_down_sync(0xffffffffu, here.x, 1);
            float4 next = here;
            if (row > 0 && row < height - 1) {
                next.x = free_x ? relax(here.x, up[t].x, fresh.x, left, here.y, k) : here.x;
                next.y = free_y ? relax(here.y, up[t].y, fresh.y, here.x, here.z, k) : here.y;
                next.z = free_z ? relax(here.z, up[t].z, fresh.z, here.y, here.w, k) : here.z;
                next.w = free_w ? relax(here.w, up[t].w, fresh.w, here.z, right, k) : here.w;
            }
            up[t] = here;
            mid[t] = fresh;
            fresh = next;
        }
        const int done = y - LEVELS;
        if (done >= first && done < last && keeps)
            store_row(to, done, x, width, fresh);
    }
}
