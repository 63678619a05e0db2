extern "C" __global__ void density(const float2 *queries, const float2 *samples, float *out, float width, int m, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m)
        return;
    float sum = 0.0f;
    for (int j = 0; j < n; j++) {
        float dx = queries[i].x - samples[j].x, dy = queries[i].y - samples[j].y;
        sum += expf(-(dx * dx + dy * dy) / (2.0f * width * width));
    }
    out[i] = sum / n;
}
