extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    __shared__ volatile float held[10240];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float value = 2.0f * a[i] + b[i];
    held[threadIdx.x] = value;
    out[i] = value;
}
