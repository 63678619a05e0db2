extern "C" __global__ void window_maximum(const float *x, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float most = x[i];
    if (i > 0)
        most = fmaxf(most, x[i - 1]);
    if (i < n - 1)
        most = fmaxf(most, x[i + 1]);
    out[i] = most;
}
