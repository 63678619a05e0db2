extern "C" __global__ void compact(const int *x, const float *w, int *keys, float *weights, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0) {
        int at = atomicAdd(count, 1);
        keys[at] = x[i];
        weights[at] = w[i];
    }
}
