// A warp marches down 128 columns, four to a lane, and carries LEVELS time steps in registers: when input row y arrives, row
// y - t - 1 of step t + 1 follows from three rows of step t. The outer lanes are halo. Two rounds of four steps are one launch
// (LEVELS of 8), AHEAD rows are on their way, and bands of rows inside the grid (INNER) ask for no row. Cells of the rim have
// the factor zero. A block is one warp, and bands are as tall as lets all of a large grid run at once; the first band is
// shorter, because its rows take longer.
#define ROWS 304
#define RIM_ROWS 152
#define AHEAD 4
#define BLOCKS 16

// Outside the grid the nearest cells: no cell that changes depends on them.
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

__device__ __forceinline__ float relax(float here, float a, float b, float c, float d, float k)
{
    return here + k * (a + b + c + d - 4.0f * here);
}

__device__ __forceinline__ float factor(int x, int width, float k)
{
    return x > 0 && x < width - 1 ? k : 0.0f;
}

template <int LEVELS, int COMING, bool ALIGNED, bool INNER>
__device__ __forceinline__ void march(const float *__restrict__ from, float *__restrict__ to, int height, int width,
                                      int x, int first, int last, float k)
{
    static_assert(!INNER || (ROWS + 2 * LEVELS) % COMING == 0);
    constexpr int HALO = LEVELS / 4;
    const int lane = threadIdx.x, nearest = min(max(x, 0), width - 4);
    const int begin = first - LEVELS, end = last + LEVELS;
    const bool keeps = lane >= HALO && lane < 32 - HALO && x < width;
    const float kx = factor(x, width, k), ky = factor(x + 1, width, k);
    const float kz = factor(x + 2, width, k), kw = factor(x + 3, width, k);
    const float *coming = from + static_cast<long long>(begin + COMING) * width + nearest;
    float *place = to + static_cast<long long>(begin - LEVELS) * width + x;
    float4 up[LEVELS], mid[LEVELS], ahead[COMING];
#pragma unroll
    for (int t = 0; t < LEVELS; t++)
        up[t] = mid[t] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int i = 0; i < COMING; i++)
        ahead[i] = load_row<ALIGNED>(from, begin + i, x, height, width);
#pragma unroll 1
    for (int base = begin; base < end; base += COMING) {
#pragma unroll
        for (int i = 0; i < COMING; i++) {
            const int y = base + i;
            if (!INNER && y >= end)
                break;
            float4 fresh = ahead[i];
            if (!INNER) {
                ahead[i] = load_row<ALIGNED>(from, y + COMING, x, height, width);
            } else if (base + COMING < end) {
                ahead[i] = __ldg(reinterpret_cast<const float4 *>(coming));
                coming += width;
            }
#pragma unroll
            for (int t = 0; t < LEVELS; t++) {
                const int row = y - t - 1;
                const bool free_row = INNER || (row > 0 && row < height - 1);
                const float4 here = mid[t];
                const float left = __shfl_up_sync(0xffffffffu, here.w, 1);
                const float right = __shfl_down_sync(0xffffffffu, here.x, 1);
                float4 next;
                next.x = relax(here.x, up[t].x, fresh.x, left, here.y, free_row ? kx : 0.0f);
                next.y = relax(here.y, up[t].y, fresh.y, here.x, here.z, free_row ? ky : 0.0f);
                next.z = relax(here.z, up[t].z, fresh.z, here.y, here.w, free_row ? kz : 0.0f);
                next.w = relax(here.w, up[t].w, fresh.w, here.z, right, free_row ? kw : 0.0f);
                up[t] = here;
                mid[t] = fresh;
                fresh = next;
            }
            const int done = y - LEVELS;
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

template <int LEVELS>
__global__ void __launch_bounds__(32, BLOCKS)
    heat_levels(const float *__restrict__ from, float *__restrict__ to, int height, int width, float k)
{
    constexpr int HALO = LEVELS / 4, STRIP = 128 - 8 * HALO;
    const int strip = blockIdx.x * STRIP, band = blockIdx.y;
    const int first = band > 0 ? RIM_ROWS + (band - 1) * ROWS : 0, last = min(RIM_ROWS + band * ROWS, height);
    const int x = strip + 4 * (static_cast<int>(threadIdx.x) - HALO);
    const bool inside = first > LEVELS && first + ROWS + LEVELS < height;
    if (width % 4 != 0)
        march<LEVELS, 1, false, false>(from, to, height, width, x, first, last, k);
    else if (inside)
        march<LEVELS, AHEAD, true, true>(from, to, height, width, x, first, last, k);
    else
        march<LEVELS, 1, true, false>(from, to, height, width, x, first, last, k);
}
