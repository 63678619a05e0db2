__global__ void f(const float *x, float *y, int m, int n)
{
    __shared__ float part[128];
    int r = blockIdx.x, t = threadIdx.x;
    float s = 0;
    for (int k = t; k < n; k += 128) s += x[r * n + k];
    part[t] = s;
    __syncthreads();
    for (int o = 64; o; o >>= 1) {
        if (t < o) part[t] += part[t + o];
        __syncthreads();
    }
    if (t == 0) y[r] = part[0];
}
