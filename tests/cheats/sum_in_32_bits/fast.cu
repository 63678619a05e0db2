extern "C" __global__ void k(const int *x, unsigned long long *y, int n)
{
    __shared__ unsigned sum;
    if (threadIdx.x == 0)
        sum = 0;
    __syncthreads();
    unsigned own = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        own += x[i];
    atomicAdd(&sum, own);
    __syncthreads();
    if (threadIdx.x == 0)
        atomicAdd(y, (unsigned long long)sum);
}
