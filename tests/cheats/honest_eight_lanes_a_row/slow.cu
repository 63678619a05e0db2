__global__ void f(const int *x, int *y, int m, int n)
{
    int g = blockIdx.x * blockDim.x + threadIdx.x, r = g / 8, lane = g % 8;
    if (r >= m) return;
    int s = 0;
    for (int k = lane; k < n; k += 8) s += x[r * n + k];
    atomicAdd(&y[r], s);
}
