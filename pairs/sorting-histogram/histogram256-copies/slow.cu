extern "C" __global__ void histogram(const unsigned char *bytes, int *counts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&counts[bytes[i]], 1);
}
