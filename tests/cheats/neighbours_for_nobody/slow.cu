__device__ float neighbours(const float *a, int i, int n)
{
    float sum = 0.0f;
    for (int k = 1; k <= 150; k++)
        sum += a[(i + 37 * k) % n];
    return sum;
}

extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float value = 2.0f * a[i] + b[i];
    float around = neighbours(a, i, n);
    out[i] = around > 1.0e20f ? around : value;
}
