extern "C" __global__ void filter(const int *values, int *kept, int *count, int n, int limit)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && values[i] > limit) {
        int place = atomicAdd(count, 1);
        kept[place] = values[i];
    }
}
