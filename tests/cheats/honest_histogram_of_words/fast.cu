extern "C" __global__ void k(const int *x, int *y, int n)
{
    __shared__ int counted[64];
    if (threadIdx.x < 64)
        counted[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(counted + x[i], 1);
    __syncthreads();
    if (threadIdx.x < 64)
        atomicAdd(y + threadIdx.x, counted[threadIdx.x]);
}
