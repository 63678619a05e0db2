// A warp marches down 128 columns, four to a lane, and carries HALVES half sweeps (red, black, ...) in registers: half sweep t
// relaxes row y - t - 1 when input row y arrives. The outer lanes are halo. Two rounds are one launch (HALVES of 8), AHEAD rows
// of both inputs are on their way, and bands of rows inside the grid (INNER) ask for no row.
#define ROWS 224
#define WARPS 4

// Outside the grid the nearest cells: nothing that is relaxed depends on them.
template <bool ALIGNED>
__device__ __forceinline__ float4 load_row(const float *__restrict__ from, int y, int x, int height, int width)
{
    const float *row = from + (size_t)min(max(y, 0), height - 1) * width;
    if (ALIGNED)
        return __ldg(reinterpret_cast<const float4 *>(row + min(max(x, 0), width - 4)));
    const int last = width - 1;
    return make_float4(row[min(max(x, 0), last)], row[min(max(x + 1, 0), last)], row[min(max(x + 2, 0), last)],
                       row[min(max(x + 3, 0), last)]);
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

template <int HALVES, int AHEAD, bool ALIGNED, bool INNER>
__device__ __forceinline__ void march(const float *__restrict__ from, const float *__restrict__ f,
                                      float *__restrict__ to, int height, int width, int x, int first)
{
    constexpr int HALO = HALVES / 4;
    const int lane = threadIdx.x % 32, nearest = min(max(x, 0), width - 4);
    const int last = min(first + ROWS, height);
    const bool keeps = lane >= HALO && lane < 32 - HALO && x < width;
    const bool free_x = x > 0 && x < width - 1, free_y = x + 1 > 0 && x + 1 < width - 1;
    const bool free_z = x + 2 > 0 && x + 2 < width - 1, free_w = x + 3 > 0 && x + 3 < width - 1;
    const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const int begin = first - HALVES, end = last + HALVES;
    const float *coming = from + static_cast<long long>(begin + AHEAD) * width + nearest;
    const float *coming_f = f + static_cast<long long>(begin + AHEAD - 1) * width + nearest;
    float *place = to + static_cast<long long>(begin - HALVES) * width + x;
    float4 up[HALVES], mid[HALVES], source[HALVES], ahead[AHEAD], ahead_f[AHEAD];
#pragma unroll
    for (int t = 0; t < HALVES; t++)
        up[t] = mid[t] = source[t] = none;
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        ahead[k] = load_row<ALIGNED>(from, begin + k, x, height, width);
        ahead_f[k] = load_row<ALIGNED>(f, begin + k - 1, x, height, width);
    }
#pragma unroll 1
    for (int base = begin; base < end; base += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int y = base + k;
            if (!INNER && y >= end)
                break;
            float4 fresh = ahead[k];
#pragma unroll
            for (int t = HALVES - 1; t > 0; t--)
                source[t] = source[t - 1];
            source[0] = ahead_f[k];
            if (!INNER) {
                ahead[k] = load_row<ALIGNED>(from, y + AHEAD, x, height, width);
                ahead_f[k] = load_row<ALIGNED>(f, y + AHEAD - 1, x, height, width);
            } else if (base + AHEAD < end) {
                ahead[k] = __ldg(reinterpret_cast<const float4 *>(coming));
                ahead_f[k] = __ldg(reinterpret_cast<const float4 *>(coming_f));
                coming += width;
                coming_f += width;
            }
#pragma unroll
            for (int t = 0; t < HALVES; t++) {
                const int row = y - t - 1;
                const float4 here = mid[t];
                float4 next = here;
                // Bands start at even rows, so that the colour is known where the loop is unrolled.
                const bool free_row = INNER || (row > 0 && row < height - 1);
                if (k % 2) {
                    const float left = __shfl_up_sync(0xffffffffu, here.w, 1);
                    const float own_x = relax(left, here.y, up[t].x, fresh.x, source[t].x);
                    const float own_z = relax(here.y, here.w, up[t].z, fresh.z, source[t].z);
                    next.x = free_row && free_x ? own_x : here.x;
                    next.z = free_row && free_z ? own_z : here.z;
                } else {
                    const float right = __shfl_down_sync(0xffffffffu, here.x, 1);
                    const float own_y = relax(here.x, here.z, up[t].y, fresh.y, source[t].y);
                    const float own_w = relax(here.z, right, up[t].w, fresh.w, source[t].w);
                    next.y = free_row && free_y ? own_y : here.y;
                    next.w = free_row && free_w ? own_w : here.w;
                }
                up[t] = here;
                mid[t] = fresh;
                fresh = next;
            }
            const int done = y - HALVES;
            if (done >= first && (INNER || done < last) && keeps) {
                if (INNER)
                    *reinterpret_cast<float4 *>(place) = fresh;
                else
                    store_row<ALIGNED>(to, done, x, width, fresh);
            }
            place += width;
        }
    }
}

template <int HALVES>
__global__ void __launch_bounds__(32 * WARPS, 2)
    relax_sweeps(const float *__restrict__ from, const float *__restrict__ f, float *__restrict__ to, int height,
                 int width)
{
    constexpr int HALO = HALVES / 4, STRIP = 128 - 8 * HALO;
    const int strip = (blockIdx.x * WARPS + threadIdx.x / 32) * STRIP;
    // The last band goes first: like the first, it takes longer.
    const int first = (blockIdx.y > 0 ? blockIdx.y - 1 : gridDim.y - 1) * ROWS;
    const int x = strip + 4 * (static_cast<int>(threadIdx.x) % 32 - HALO);
    if (strip >= width)
        return;
    const bool inside = first > HALVES && first + ROWS + HALVES < height;
    if (width % 4 != 0)
        march<HALVES, 2, false, false>(from, f, to, height, width, x, first);
    else if (inside)
        march<HALVES, 4, true, true>(from, f, to, height, width, x, first);
    else
        march<HALVES, 2, true, false>(from, f, to, height, width, x, first);
}
