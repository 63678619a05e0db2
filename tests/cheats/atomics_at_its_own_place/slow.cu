extern "C" __global__ void combine(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = 0.0f;
    for (int k = 0; k < 8; k++)
        atomicAdd(&out[i], a[i] * (0.125f * k));
    atomicAdd(&out[i], b[i]);
}
