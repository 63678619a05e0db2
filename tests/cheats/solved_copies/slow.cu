extern "C" __global__ void logistic(const float *x, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float v = x[i];
    for (int k = 0; k < 200; k++)
        v = 3.7f * v * (1.0f - v);
    out[i] = v;
}
