#include <cooperative_groups.h>

namespace cg = cooperative_groups;

extern "C" __global__ void row_sums(const float *a, float *sums, int m, int n)
{
    __shared__ float part[4];
    __shared__ float total;
    cg::cluster_group cluster = cg::this_cluster();
    const float *row = a + (size_t)blockIdx.y * n;
    float sum = 0.0f;
    for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += 4 * 128)
        sum += row[i];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0)
        total = part[0] + part[1] + part[2] + part[3];
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        sum = 0.0f;
        for (int block = 0; block < 4; block++)
            sum += *cluster.map_shared_rank(&total, block);
        sums[blockIdx.y] = sum;
    }
    cluster.sync();
}
