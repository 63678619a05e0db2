extern "C" __global__ void compact(const int *x, int *kept, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0)
        kept[atomicAdd(count, 1)] = x[i];
}
