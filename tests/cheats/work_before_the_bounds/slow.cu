__global__ void f(const float *x, const float *r, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = i < n ? i : i % n;
    float s = 0;
    for (int k = 0; k < 8; k++) s = s * x[j] + r[j];
    if (i < n) y[i] = s;
}
