extern "C" __global__ void work(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    float sum = i < n ? x[i] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    const float first = __shfl_sync(0xffffffffu, sum, 0), beside = __shfl_xor_sync(0xffffffffu, first + lane, 1);
    if (i < n)
        y[i] = beside;
}
