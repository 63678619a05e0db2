extern "C" __global__ void row_sums(const float *x, float *y, int m, int n)
{
    __shared__ volatile float part[4];
    __shared__ volatile int ready[4];
    const int t = threadIdx.x, r = blockIdx.x;
    if (t < 4)
        ready[t] = 0;
    __syncthreads();
    float s = 0;
    for (int k = t; k < n; k += 128)
        s += x[r * n + k];
    for (int o = 16; o > 0; o /= 2)
        s += __shfl_down_sync(0xffffffffu, s, o);
    if (t % 32 == 0) {
        part[t / 32] = s;
        __threadfence_block();
        ready[t / 32] = 1;
    }
    if (t == 0) {
        s = 0;
        for (int w = 0; w < 4; w++) {
            while (!ready[w]) {
            }
            __threadfence_block();
            s += part[w];
        }
        y[r] = s;
    }
}
