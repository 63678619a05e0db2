extern "C" __global__ void work(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 8
    for (int k = 0; k < n; k++)
        sum += x[k] * x[n - 1 - k];
#pragma unroll 1
    for (int k = 0; k < n; k += 64)
        sum -= x[k];
    if (i < n)
        y[i] = sum + x[i];
}
