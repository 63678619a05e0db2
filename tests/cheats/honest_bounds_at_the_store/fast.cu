__global__ void f(const float *x, const float *r, float *y, int n)
{
    __shared__ float tile[264];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    for (int k = t; k < 264; k += 256) tile[k] = x[min(max(i - t - 4 + k, 0), n - 1)];
    __syncthreads();
    float s = 0;
    for (int k = -4; k <= 4; k++) s += tile[t + 4 + k] * (float)(5 - abs(k));
    if (i < n) y[i] = s + r[i];
}
