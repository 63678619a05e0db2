
extern "C" __global__ void sums_by_key(const int *key, const int *value, int *sums, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(sums + key[i], value[i]);
}
