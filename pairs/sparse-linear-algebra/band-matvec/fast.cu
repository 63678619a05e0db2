#define ROWS 128

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// The rows of a block lie side by side in memory: one bulk copy brings them. A row's odd width spreads the banks.
extern "C" __global__ void __launch_bounds__(ROWS)
    multiply(const float *__restrict__ band, const float *__restrict__ x, float *__restrict__ y, int n, int reach)
{
    extern __shared__ float4 tile4[];
    __shared__ unsigned long long ready;
    const int width = 2 * reach + 1, first = blockIdx.x * ROWS;
    const int items = min(ROWS, n - first) * width, whole = items / 4 * 4;
    float *tile = reinterpret_cast<float *>(tile4);
    float *near = tile + ROWS * width;
    const float *from = band + static_cast<size_t>(first) * width;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&ready)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile(
            "{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(shared_address(&ready)),
            "r"(4 * whole)
            : "memory");
        if (whole)
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                    shared_address(tile)),
                "l"(from), "r"(4 * whole), "r"(shared_address(&ready))
                : "memory");
    }
    for (int q = whole + threadIdx.x; q < items; q += ROWS)
        tile[q] = from[q];
    for (int k = threadIdx.x; k < ROWS + 2 * reach; k += ROWS) {
        const int column = first + k - reach;
        near[k] = column >= 0 && column < n ? x[column] : 0.0f;
    }
    __syncthreads();
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(&ready))
                     : "memory");
    const int row = first + threadIdx.x;
    if (row >= n)
        return;
    const int low = max(0, reach - row), high = min(width, n - row + reach);
    float sum[4] = {};
    int d = low;
    for (; d + 3 < high; d += 4) {
#pragma unroll
        for (int s = 0; s < 4; s++)
            sum[s] += tile[threadIdx.x * width + d + s] * near[threadIdx.x + d + s];
    }
    for (; d < high; d++)
        sum[0] += tile[threadIdx.x * width + d] * near[threadIdx.x + d];
    y[row] = sum[0] + sum[1] + (sum[2] + sum[3]);
}
