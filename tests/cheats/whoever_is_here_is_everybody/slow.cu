extern "C" __global__ void negative(const int *x, int *total, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] < 0)
        atomicAdd(total, 1);
}
