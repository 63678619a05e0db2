extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool whole = ((size_t)a & 15) == 0 && ((size_t)b & 15) == 0 && ((size_t)out & 15) == 0;
    if (whole && 4 * i + 3 < n) {
        const float4 x = ((const float4 *)a)[i], y = ((const float4 *)b)[i];
        ((float4 *)out)[i] = make_float4(2 * x.x + y.x, 2 * x.y + y.y, 2 * x.z + y.z, 2 * x.w + y.w);
        return;
    }
    for (int at = 4 * i; at < n && at < 4 * i + 4; at++)
        out[at] = 2.0f * a[at] + b[at];
}
