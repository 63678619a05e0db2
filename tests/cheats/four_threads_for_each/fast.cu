__global__ void f(const float *x, const float *r, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 1.5f * x[i] + r[i];
}
