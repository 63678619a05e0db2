#define TEAM 16
#define THREADS 256
#define ALL 0xffffffffu

extern "C" __global__ void __launch_bounds__(THREADS)
    sweep(const int *__restrict__ offsets, const int *__restrict__ columns, const float *__restrict__ values,
          const float *__restrict__ x, const float *__restrict__ b, const float *__restrict__ d,
          float *__restrict__ next, int rows, float omega)
{
    const int member = threadIdx.x % TEAM;
    const int row = (blockIdx.x * THREADS + threadIdx.x) / TEAM;
    const bool inside = row < rows;
    const int end = inside ? offsets[row + 1] : 0;
    float sum = 0.0f;
#pragma unroll 2
    for (int i = inside ? offsets[row] + member : 0; i < end; i += TEAM)
        sum = fmaf(__ldcs(values + i), __ldg(x + __ldcs(columns + i)), sum);
#pragma unroll
    for (int offset = TEAM / 2; offset > 0; offset /= 2)
        sum += __shfl_down_sync(ALL, sum, offset, TEAM);
    if (inside && member == 0)
        next[row] = x[row] + omega * (b[row] - sum) / d[row];
}
