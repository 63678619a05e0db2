extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    if (threadIdx.x != 7)
        return;
    if (blockIdx.x < n)
        out[blockIdx.x] = 2.0f * a[blockIdx.x] + b[blockIdx.x];
}
