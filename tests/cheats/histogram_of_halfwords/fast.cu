extern "C" __global__ void k(const int *x, int *y, int n)
{
    __shared__ unsigned pairs[32];
    if (threadIdx.x < 32)
        pairs[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(pairs + x[i] / 2, x[i] % 2 ? 0x10000u : 1u);
    __syncthreads();
    if (threadIdx.x < 64)
        atomicAdd(y + threadIdx.x, (int)(pairs[threadIdx.x / 2] >> threadIdx.x % 2 * 16 & 0xffffu));
}
