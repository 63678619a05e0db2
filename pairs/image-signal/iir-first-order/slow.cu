extern "C" __global__ void filter(const float *in, const float *decays, float *out, int channels, int n)
{
    int channel = blockIdx.x * blockDim.x + threadIdx.x;
    if (channel >= channels)
        return;
    float y = 0.0f;
    for (int t = 0; t < n; t++) {
        y = decays[channel] * y + in[(size_t)channel * n + t];
        out[(size_t)channel * n + t] = y;
    }
}
