extern "C" __global__ void twice(const float *x, float *y, int n)
{
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n)
        return;
    float4 v = *(const float4 *)(x + i);
    y[i] = 2.0f * v.x;
    if (i + 1 < n)
        y[i + 1] = 2.0f * v.y;
    if (i + 2 < n)
        y[i + 2] = 2.0f * v.z;
    if (i + 3 < n)
        y[i + 3] = 2.0f * v.w;
}
