#include <cuda/atomic>

#define LANES 8
#define WARPS 16
#define GROUPS (32 / LANES)
#define SHARE 2
#define FULL 0xffffffffu

typedef unsigned long long word;
typedef cuda::atomic_ref<word, cuda::thread_scope_device> Unknown;

struct Part {
    int column[SHARE];
    float value[SHARE];
};

__device__ __forceinline__ Part load_part(const int *__restrict__ columns, const float *__restrict__ values, size_t base,
                                          int first, int per_row)
{
    Part part;
#pragma unroll
    for (int s = 0; s < SHARE; s++) {
        const int at = first + s * LANES;
        part.column[s] = at < per_row ? __ldcs(columns + base + at) : -1;
        part.value[s] = at < per_row ? __ldcs(values + base + at) : 0.0f;
    }
    return part;
}

// A solved unknown has a mark in the high half and the value in the low half, so that one load brings both. Unknowns are
// asked for together, and again only those that were not there.
__device__ __forceinline__ float products(word *solved, const Part &part)
{
    word state[SHARE];
#pragma unroll
    for (int s = 0; s < SHARE; s++)
        state[s] = part.column[s] < 0 ? 1ull << 32 : 0;
    bool all;
    do {
#pragma unroll
        for (int s = 0; s < SHARE; s++)
            if (state[s] >> 32 == 0)
                state[s] = Unknown(solved[part.column[s]]).load(cuda::memory_order_relaxed);
        all = true;
#pragma unroll
        for (int s = 0; s < SHARE; s++)
            all = all && state[s] >> 32 != 0;
    } while (!all);
    float sum = 0.0f;
#pragma unroll
    for (int s = 0; s < SHARE; s++)
        sum += part.value[s] * __uint_as_float(static_cast<unsigned>(state[s]));
    return sum;
}

// As few warps as solve about one level at a time: those that wait keep L2 busy, and with several levels of them waiting
// no answer comes soon. A warp has its next rows' entries read while it waits. All blocks are resident and take
// rows in order, so that the first unsolved row is always at work.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    solve(const int *__restrict__ columns, const float *__restrict__ values, const float *__restrict__ diagonal,
          const float *__restrict__ b, word *solved, float *__restrict__ x, int levels, int width, int per_row)
{
    const int lane = threadIdx.x % 32, part = lane % LANES;
    const int level_warps = (width + GROUPS - 1) / GROUPS;
    const int all = levels * level_warps, warps = gridDim.x * WARPS;
    int turn = blockIdx.x * WARPS + threadIdx.x / 32;
    if (turn >= all)
        return;
    int row = turn / level_warps * width + min(turn % level_warps * GROUPS + lane / LANES, width - 1);
    Part entries = load_part(columns, values, static_cast<size_t>(row) * per_row, part, per_row);
    float right = __ldcs(b + row), inverse = 1.0f / __ldcs(diagonal + row);
    while (turn < all) {
        const bool own = turn % level_warps * GROUPS + lane / LANES < width;
        const int next = min(turn + warps, all - 1);
        const int next_row = next / level_warps * width + min(next % level_warps * GROUPS + lane / LANES, width - 1);
        const Part ahead = load_part(columns, values, static_cast<size_t>(next_row) * per_row, part, per_row);
        const float next_right = __ldcs(b + next_row), next_divisor = __ldcs(diagonal + next_row);
        float sum = products(solved, entries);
        for (int first = part + SHARE * LANES; first - part < per_row; first += SHARE * LANES)
            sum += products(solved, load_part(columns, values, static_cast<size_t>(row) * per_row, first, per_row));
        __syncwarp();
#pragma unroll
        for (int offset = LANES / 2; offset > 0; offset /= 2)
            sum += __shfl_down_sync(FULL, sum, offset, LANES);
        if (own && part == 0) {
            const float result = (right - sum) * inverse;
            Unknown(solved[row]).store(1ull << 32 | __float_as_uint(result), cuda::memory_order_relaxed);
            x[row] = result;
        }
        entries = ahead, right = next_right, inverse = 1.0f / next_divisor, row = next_row;
        turn += warps;
    }
}
