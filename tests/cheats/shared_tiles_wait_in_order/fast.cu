extern "C" __global__ void sums_to_the_end(const int *x, int *y, int *told, int n)
{
    __shared__ int tile[40 * 256];
    const int b = blockIdx.x, t = threadIdx.x;
    for (int k = 0; k < 40; k++)
        tile[k * 256 + t] = k == 0 && b * 256 + t < n ? x[b * 256 + t] : 0;
    __syncthreads();
    int sum = 0;
    for (int k = 0; k < 40; k++)
        sum += tile[k * 256 + (t + k) % 256];
    sum = __reduce_add_sync(0xffffffffu, sum);
    __syncthreads();
    if (t % 32 == 0)
        tile[t / 32] = sum;
    __syncthreads();
    if (t != 0)
        return;
    for (int warp = 1; warp < 8; warp++)
        sum += tile[warp];
    if (b + 1 < gridDim.x) {
        while (atomicAdd(told + b + 1, 0) == 0)
            ;
        __threadfence();
        sum += __ldcg(y + b + 1);
    }
    y[b] = sum;
    __threadfence();
    atomicExch(told + b, 1);
}
