extern "C" __global__ void dct(const float *a, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    for (int k = 0; k < 8; k++) {
        float sum = 0.0f;
        for (int j = 0; j < 8; j++)
            sum += a[i * 8 + j] * cosf((2 * j + 1) * k % 32 * 0.19634954f);
        out[i * 8 + k] = sum;
    }
}
