extern "C" __global__ void histogram(const unsigned char *bytes, int *counts, int n)
{
    __shared__ int local[256];
    local[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[bytes[i]], 1);
    __syncthreads();
    atomicAdd(&counts[threadIdx.x], local[threadIdx.x]);
}
