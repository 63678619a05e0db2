__global__ void f(const float *x, const float *r, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0;
    for (int k = 0; k < 8; k++) s = s * x[i] + r[i];
    y[i] = s;
}
