extern "C" __global__ void work(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float a = x[i], b = a * a + 1.0f;
    y[i] = __fdividef(__expf(-a), b) + rsqrtf(b) * __sinf(a) + __powf(b, 0.5f);
}
