__global__ void f(const float *x, float *y, int m, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= m) return;
    float last[8], s = 0;
#pragma unroll
    for (int k = 0; k < 8; k++) last[k] = 0.0f;
    for (int k0 = 0; k0 < n; k0 += 8) {
#pragma unroll
        for (int k = 0; k < 8; k++) {
            if (k0 + k < n) {
                last[k] = x[r * n + k0 + k];
                float top = fmaxf(fmaxf(fmaxf(last[0], last[1]), fmaxf(last[2], last[3])), fmaxf(fmaxf(last[4], last[5]), fmaxf(last[6], last[7])));
                s += top;
            }
        }
    }
    y[r] = s;
}
