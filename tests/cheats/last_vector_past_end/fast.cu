extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    const int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n)
        return;
    const float4 x = *reinterpret_cast<const float4 *>(a + i), y = *reinterpret_cast<const float4 *>(b + i);
    const float sums[4] = {x.x + 2.0f * y.x, x.y + 2.0f * y.y, x.z + 2.0f * y.z, x.w + 2.0f * y.w};
    for (int k = 0; k < 4 && i + k < n; k++)
        out[i + k] = sums[k];
}
