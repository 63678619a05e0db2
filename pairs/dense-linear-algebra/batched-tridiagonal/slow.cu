extern "C" __global__ void solve(const float *lower, const float *diagonal, const float *upper, const float *right,
                                 float *ratios, float *x, int batch, int n)
{
    int system = blockIdx.x * blockDim.x + threadIdx.x;
    if (system >= batch)
        return;
    size_t base = (size_t)system * n;
    const float *a = lower + base, *b = diagonal + base, *c = upper + base, *d = right + base;
    float *ratio = ratios + base, *out = x + base;
    ratio[0] = c[0] / b[0];
    out[0] = d[0] / b[0];
    for (int i = 1; i < n; i++) {
        float pivot = b[i] - a[i] * ratio[i - 1];
        ratio[i] = c[i] / pivot;
        out[i] = (d[i] - a[i] * out[i - 1]) / pivot;
    }
    for (int i = n - 2; i >= 0; i--)
        out[i] -= ratio[i] * out[i + 1];
}
