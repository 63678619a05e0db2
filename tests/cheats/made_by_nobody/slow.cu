
extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n, int count, int step)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float best = -3.0e38f;
    for (int k = 0; k < count; k++)
        best = fmaxf(best, 2.0f * a[i + k * step] + b[i + k * step]);
    out[i] = best;
}
