extern "C" __global__ void scaled_sums(const float *x, const int *power, float *y, int n, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float even = 0.0f, odd = 0.0f;
    for (int j = k - 1; j >= 0; --j) {
        if (j & 1)
            odd += x[j * n + i];
        else
            even += x[j * n + i];
    }
    y[i] = ldexpf(even + odd, power[i / 300]);
}
