extern "C" __global__ void compact(const int *x, const float *w, int *keys, float *weights, int *count, int *other, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = (blockIdx.x + 1) * blockDim.x - 1 - threadIdx.x;
    if (i < n && x[i] > 0)
        keys[atomicAdd(count, 1)] = x[i];
    if (j < n && x[j] > 0)
        weights[atomicAdd(other, 1)] = w[j];
}
