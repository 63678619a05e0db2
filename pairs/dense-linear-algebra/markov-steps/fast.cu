#include <cooperative_groups.h>

#define BLOCKS 4
#define PARTS 4
#define MOST 256
#define COLS (MOST / BLOCKS)
#define ROWS (MOST / PARTS)
#define THREADS (COLS * PARTS)

namespace cg = cooperative_groups;

// One cluster per chain: its matrix stays in the registers of four blocks, and only the state goes around.
extern "C" __global__ void __launch_bounds__(THREADS)
    steps(const float *__restrict__ chances, float *__restrict__ states, int n, int count)
{
    __shared__ float4 state[2][MOST / 4];
    __shared__ float sums[PARTS][COLS];
    cg::cluster_group cluster = cg::this_cluster();
    const int chain = blockIdx.x / BLOCKS, rank = cluster.block_rank();
    const int part = threadIdx.x / COLS, own = threadIdx.x % COLS, column = rank * COLS + own;
    float chance[ROWS];
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const int row = part * ROWS + i;
        chance[i] =
            row < n && column < n ? __ldcs(chances + (static_cast<size_t>(chain) * n + row) * n + column) : 0.0f;
    }
    float *first = reinterpret_cast<float *>(state[0]);
    for (int i = threadIdx.x; i < MOST; i += THREADS)
        first[i] = i < n ? states[chain * n + i] : 0.0f;
    cluster.sync();
#pragma unroll 1
    for (int t = 0; t < count; t++) {
        const float4 *now = state[t % 2] + part * ROWS / 4;
        float sum[4] = {};
#pragma unroll
        for (int q = 0; q < ROWS / 4; q++) {
            const float4 four = now[q];
            sum[0] += four.x * chance[4 * q];
            sum[1] += four.y * chance[4 * q + 1];
            sum[2] += four.z * chance[4 * q + 2];
            sum[3] += four.w * chance[4 * q + 3];
        }
        sums[part][own] = sum[0] + sum[1] + (sum[2] + sum[3]);
        __syncthreads();
        const float total = sums[0][own] + sums[1][own] + (sums[2][own] + sums[3][own]);
        float *next = reinterpret_cast<float *>(state[(t + 1) % 2]);
        cluster.map_shared_rank(next, part)[column] = total;
        cluster.sync();
    }
    const float *last = reinterpret_cast<const float *>(state[count % 2]);
    if (part == 0 && column < n)
        states[chain * n + column] = last[column];
}
