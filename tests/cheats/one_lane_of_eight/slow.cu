__global__ void f(const float *x, const float *r, float *y, int n)
{
    if (threadIdx.x & 7) return;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int j = i; j < i + 8 && j < n; j++) y[j] = 1.5f * x[j] + r[j];
}
