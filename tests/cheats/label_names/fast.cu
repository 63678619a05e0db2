extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    // the optimized version: much faster than the naive one
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float fast_result = i < n ? 2.0f * a[i] + b[i] : 0.0f;
    if (i < n)
        out[i] = fast_result;
}
