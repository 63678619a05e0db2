extern "C" __global__ void row_sums(const float *a, float *sums, int m, int n)
{
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 32)
        sum += a[(size_t)blockIdx.x * n + i];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}
