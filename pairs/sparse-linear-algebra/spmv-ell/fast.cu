#define LANES 8
#define THREADS 256
#define FULL 0xffffffffu

extern "C" __global__ void __launch_bounds__(THREADS)
    spmv(const int *__restrict__ lengths, const int *__restrict__ columns, const float *__restrict__ values,
         const float *__restrict__ x, float *__restrict__ y, int rows, int width)
{
    const int row = blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
    const int lane = threadIdx.x % LANES;
    float sum = 0.0f;
    if (row < rows) {
        const int length = __ldg(lengths + row);
        const size_t base = static_cast<size_t>(row) * width;
        int j = 0;
        if (width % 4 == 0) {
#pragma unroll 2
            for (j = lane * 4; j + 3 < length; j += 4 * LANES) {
                const int4 column = __ldcs(reinterpret_cast<const int4 *>(columns + base + j));
                const float4 value = __ldcs(reinterpret_cast<const float4 *>(values + base + j));
                const float a = __ldg(x + column.x), b = __ldg(x + column.y);
                const float c = __ldg(x + column.z), d = __ldg(x + column.w);
                sum += value.x * a + value.y * b + (value.z * c + value.w * d);
            }
            for (j = length / 4 * 4 + lane; j < length; j += LANES)
                sum += values[base + j] * __ldg(x + columns[base + j]);
        } else {
            for (j = lane; j < length; j += LANES)
                sum += __ldcs(values + base + j) * __ldg(x + __ldcs(columns + base + j));
        }
    }
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2)
        sum += __shfl_down_sync(FULL, sum, offset, LANES);
    if (row < rows && lane == 0)
        y[row] = sum;
}
