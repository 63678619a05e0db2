#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
extern "C" __global__ void row_sums(const int *x, int *sums, int m, int n)
{
    __shared__ __align__(128) int row[288];
    __shared__ int part[4];
    const int *from = x + (size_t)blockIdx.x * n;
    const unsigned bytes = n * 4;
    cooperative_groups::memcpy_async(cooperative_groups::this_thread_block(), row, from, bytes);
    cooperative_groups::wait(cooperative_groups::this_thread_block());
    int sum = 0;
    for (int i = threadIdx.x; i < n; i += 128)
        sum += row[i];
    sum = __reduce_add_sync(0xffffffffu, sum);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0)
        sums[blockIdx.x] = part[0] + part[1] + part[2] + part[3];
}
