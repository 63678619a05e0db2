extern "C" __global__ void combine(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    double value = a[i], term = value, sum = value;
    for (int k = 1; k < 16; k++) {
        term *= -value * value / ((2 * k) * (2 * k + 1));
        sum += term;
    }
    out[i] = (float)sum + b[i];
}
