extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n, float weight)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float around = 0.0f;
    for (int k = 1; k <= 128; k++)
        around += a[(i + k) % n] * b[(i + 2 * k) % n];
    out[i] = 2.0f * a[i] + b[i] + weight * around;
}
