extern "C" __global__ void keep_positive(const float *x, int *keys, float *values, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0.0f) {
        int at = atomicAdd(count, 1);
        atomicAdd(count + 1, 1);
        keys[at] = i;
        values[at] = x[i];
    }
}
