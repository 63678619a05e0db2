extern "C" __global__ void keep(const int *x, int *kept, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || x[i] <= 0)
        return;
    int at = atomicAdd(count, 1);
    kept[2 * at] = x[i];
    kept[2 * at + 1] = i;
}
