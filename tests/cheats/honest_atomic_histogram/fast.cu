extern "C" __global__ void histogram(const int *x, unsigned *bins, int n)
{
    __shared__ unsigned own[1024];
    for (int b = threadIdx.x; b < 1024; b += blockDim.x)
        own[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&own[x[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 1024; b += blockDim.x)
        if (own[b])
            atomicAdd(&bins[b], own[b]);
}
