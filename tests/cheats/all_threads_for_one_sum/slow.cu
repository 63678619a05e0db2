__global__ void f(const float *x, float *y, int m, int n)
{
    int r = blockIdx.x;
    float s = 0;
    for (int k = 0; k < n; k++) s += x[r * n + k];
    if (threadIdx.x == 0) y[r] = s;
}
