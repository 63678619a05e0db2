extern "C" __global__ void k(const int *x, unsigned long long *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(y, (unsigned long long)x[i]);
}
