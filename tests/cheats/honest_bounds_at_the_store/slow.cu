__global__ void f(const float *x, const float *r, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0;
    for (int k = -4; k <= 4; k++) {
        int j = min(max(i + k, 0), n - 1);
        s += x[j] * (float)(5 - abs(k));
    }
    if (i < n) y[i] = s + r[i];
}
