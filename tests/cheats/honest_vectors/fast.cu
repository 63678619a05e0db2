extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 1 < n) {
        float2 x = *(const float2 *)(a + i), y = *(const float2 *)(b + i);
        *(float2 *)(out + i) = make_float2(2.0f * x.x + y.x, 2.0f * x.y + y.y);
    } else if (i < n) {
        out[i] = 2.0f * a[i] + b[i];
    }
}
