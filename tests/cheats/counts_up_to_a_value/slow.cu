extern "C" __global__ void combine(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float value = a[i];
    int steps = 0;
    while ((steps + 1) * 0.03125f <= value)
        steps++;
    out[i] = steps * b[i];
}
