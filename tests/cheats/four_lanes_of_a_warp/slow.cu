__global__ void f(const float *x, const float *r, float *y, int n)
{
    int lane = threadIdx.x % 32;
    if (lane >= 4) return;
    int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 4 + lane;
    if (i < n) y[i] = 1.5f * x[i] + r[i];
}
