__global__ void f(const float *x, float *y, int m, int n)
{
    int r = blockIdx.x, lane = threadIdx.x;
    float s = 0;
    for (int k = lane; k < n; k += 32) {
        float v = x[r * n + k];
        s += v + 0.01f * v * v;
    }
    for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
    if (lane == 0) y[r] = s;
}
