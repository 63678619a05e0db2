extern "C" __global__ void count(const unsigned char *first, const unsigned char *second, int *counts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(&counts[first[i] / 4 * 64 + second[i] / 4], 1);
}
