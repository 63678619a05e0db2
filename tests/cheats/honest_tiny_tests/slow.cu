extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int start = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
    for (int i = start; i < start + 4 && i < n; i++)
        out[i] = 2.0f * a[i] + b[i];
}
