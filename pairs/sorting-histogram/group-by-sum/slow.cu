extern "C" __global__ void group_by(const int *keys, const short *values, unsigned long long *sums, int *counts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        atomicAdd(&sums[keys[i]], (unsigned long long)(long long)values[i]);
        atomicAdd(&counts[keys[i]], 1);
    }
}
