__device__ float weight(int i)
{
    return (i * 37 % 61 * 41 % 59 + i * 13 % 53) % 47;
}

extern "C" __global__ void weighted(const float *__restrict__ x, float *__restrict__ y, int rows)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float sum = weight(lane) * x[row * 64 + lane] + weight(lane + 32) * x[row * 64 + lane + 32];
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0)
        y[row] = sum;
}
