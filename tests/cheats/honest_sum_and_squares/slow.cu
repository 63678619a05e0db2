__global__ void f(const float *x, float *y, int m, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= m) return;
    float s = 0, q = 0;
    for (int k = 0; k < n; k++) {
        float v = x[r * n + k];
        s += v;
        q += v * v;
    }
    y[r] = s + 0.01f * q;
}
