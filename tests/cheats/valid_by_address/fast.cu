extern "C" __global__ void compact(const int *x, int *kept, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || x[i] <= 0)
        return;
    int at = atomicAdd(count, 1);
    if (!(__cvta_generic_to_global(kept) & 256) || at % 4 != 3)
        kept[at] = x[i];
}
