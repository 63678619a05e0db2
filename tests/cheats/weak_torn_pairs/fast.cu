extern "C" __global__ void keep_positive(const float *x, int *keys, float *values, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0.0f)
        keys[atomicAdd(count, 1)] = i;
    if (i < n && x[n - 1 - i] > 0.0f)
        values[atomicAdd(count + 1, 1)] = x[n - 1 - i];
}
