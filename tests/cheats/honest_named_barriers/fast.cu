extern "C" __global__ void sum_up(const int *x, int *result, int n)
{
    __shared__ int tile[2][128];
    const int t = threadIdx.x % 128;
    const bool reads = threadIdx.x < 128;
    int sum = 0, now = 0;
    for (int start = blockIdx.x * 128; start < n; start += gridDim.x * 128, now ^= 1) {
        if (reads) {
            if (start >= (int)(blockIdx.x + 2 * gridDim.x) * 128)
                asm volatile("bar.sync %0, 256;" ::"r"(3 + now) : "memory");
            tile[now][t] = start + t < n ? x[start + t] : 0;
            __threadfence_block();
            asm volatile("bar.arrive %0, 256;" ::"r"(1 + now) : "memory");
        } else {
            asm volatile("bar.sync %0, 256;" ::"r"(1 + now) : "memory");
            sum += tile[now][t];
            if (start + 2 * (int)gridDim.x * 128 < n)
                asm volatile("bar.arrive %0, 256;" ::"r"(3 + now) : "memory");
        }
    }
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0 && !reads)
        atomicAdd(result, sum);
}
