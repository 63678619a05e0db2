__global__ void f(const int *x, int *y, int m, int n)
{
    int r = blockIdx.x, lane = threadIdx.x;
    int s = 0;
    for (int k = lane; k < n; k += 32) s += x[r * n + k];
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
    if (lane == 0) y[r] = s;
}
