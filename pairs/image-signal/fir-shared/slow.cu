extern "C" __global__ void fir(const float *signal, const float *taps, float *out, int n, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float sum = 0.0f;
    for (int k = 0; k < count; k++)
        if (i - k >= 0)
            sum += taps[k] * signal[i - k];
    out[i] = sum;
}
