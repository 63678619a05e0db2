#include <cooperative_groups.h>

#define THREADS 1024
#define BLOCKS 2

namespace cg = cooperative_groups;

// One table for a cluster: each block holds half of the bins, and all of its threads count into both halves.
extern "C" __global__ void __launch_bounds__(THREADS)
    histogram(const unsigned short *__restrict__ values, int *__restrict__ counts, int n, int bins)
{
    extern __shared__ int own[];
    cg::cluster_group cluster = cg::this_cluster();
    const int half = (bins + BLOCKS - 1) / BLOCKS;
    for (int b = threadIdx.x; b < half; b += THREADS)
        own[b] = 0;
    cluster.sync();
    int *low = cluster.map_shared_rank(own, 0), *high = cluster.map_shared_rank(own, 1);
    const int thread = blockIdx.x * THREADS + threadIdx.x, threads = gridDim.x * THREADS;
    const uint4 *eight = reinterpret_cast<const uint4 *>(values);
#pragma unroll 2
    for (int q = thread; q < n / 8; q += threads) {
        const uint4 packed = __ldcs(eight + q);
        const unsigned word[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
        for (int w = 0; w < 4; w++) {
            const int a = word[w] & 0xffff, b = word[w] >> 16;
            atomicAdd(a < half ? low + a : high + (a - half), 1);
            atomicAdd(b < half ? low + b : high + (b - half), 1);
        }
    }
    for (int i = n / 8 * 8 + thread; i < n; i += threads) {
        const int a = values[i];
        atomicAdd(a < half ? low + a : high + (a - half), 1);
    }
    cluster.sync();
    const int first = cluster.block_rank() * half;
    for (int b = threadIdx.x; b < half && first + b < bins; b += THREADS)
        if (own[b])
            atomicAdd(counts + first + b, own[b]);
}
