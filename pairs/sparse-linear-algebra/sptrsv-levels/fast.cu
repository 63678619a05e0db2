#include <cuda/atomic>

#define LANES 8
#define WARPS 4
#define GROUPS (32 / LANES)
#define FULL 0xffffffffu

typedef unsigned long long word;
typedef cuda::atomic_ref<word, cuda::thread_scope_device> Unknown;

// A solved unknown: a mark in the high half, the value in the low half, so that one load brings both.
__device__ __forceinline__ float wait_for(word *solved)
{
    word state;
    do {
        state = Unknown(*solved).load(cuda::memory_order_relaxed);
    } while (state >> 32 == 0);
    return __uint_as_float(static_cast<unsigned>(state));
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    solve(const int *__restrict__ columns, const float *__restrict__ values, const float *__restrict__ diagonal,
          const float *__restrict__ b, word *solved, int *ticket, float *__restrict__ x, int levels, int width,
          int per_row)
{
    __shared__ int shared_block;
    const int lane = threadIdx.x % 32, part = lane % LANES;
    const int level_warps = (width + GROUPS - 1) / GROUPS;
    if (threadIdx.x == 0)
        shared_block = atomicAdd(ticket, 1);
    __syncthreads();
    const int warp = shared_block * WARPS + threadIdx.x / 32;
    const int level = warp / level_warps, i = warp % level_warps * GROUPS + lane / LANES;
    if (level >= levels)
        return;
    const bool own = i < width;
    const int row = level * width + min(i, width - 1);
    const size_t base = static_cast<size_t>(row) * per_row;
    const float right = b[row], inverse = 1.0f / diagonal[row];
    float sum = 0.0f;
    if (own) {
        int column = part < per_row ? __ldcs(columns + base + part) : -1;
        float value = part < per_row ? __ldcs(values + base + part) : 0.0f;
        for (int next = part + LANES; next < per_row + LANES; next += LANES) {
            const int next_column = next < per_row ? __ldcs(columns + base + next) : -1;
            const float next_value = next < per_row ? __ldcs(values + base + next) : 0.0f;
            if (column >= 0)
                sum += value * wait_for(solved + column);
            column = next_column, value = next_value;
        }
    }
    __syncwarp();
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2)
        sum += __shfl_down_sync(FULL, sum, offset, LANES);
    if (own && part == 0) {
        const float result = (right - sum) * inverse;
        Unknown(solved[row]).store(1ull << 32 | __float_as_uint(result), cuda::memory_order_relaxed);
        x[row] = result;
    }
}
