#define LANES 32
#define LINES 8
#define UNROLL 4

__device__ __forceinline__ void add(float4 &sum, float4 value)
{
    sum.x += value.x;
    sum.y += value.y;
    sum.z += value.z;
    sum.w += value.w;
}

extern "C" __global__ void __launch_bounds__(LANES *LINES)
    partial(const float *__restrict__ gradient, float *__restrict__ parts, int rows, int cols, int span)
{
    __shared__ float4 room[LINES][LANES];
    const int col = (blockIdx.x * LANES + threadIdx.x) * 4;
    const int last = min((int)(blockIdx.y + 1) * span, rows);
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    int row = blockIdx.y * span + threadIdx.y;
    if (cols % 4 == 0 && col < cols) {
        for (; row + (UNROLL - 1) * LINES < last; row += UNROLL * LINES) {
            float4 held[UNROLL];
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                held[u] = __ldcs(reinterpret_cast<const float4 *>(gradient + (row + u * LINES) * cols + col));
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                add(sum, held[u]);
        }
        for (; row < last; row += LINES)
            add(sum, __ldcs(reinterpret_cast<const float4 *>(gradient + row * cols + col)));
    } else {
        for (; row < last; row += LINES) {
            const float *from = gradient + row * cols;
            add(sum, make_float4(col < cols ? from[col] : 0.0f, col + 1 < cols ? from[col + 1] : 0.0f,
                                 col + 2 < cols ? from[col + 2] : 0.0f, col + 3 < cols ? from[col + 3] : 0.0f));
        }
    }
    room[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    const int line = threadIdx.y * LANES + threadIdx.x;
    const int mine = blockIdx.x * (4 * LANES) + line;
    if (line < 4 * LANES && mine < cols) {
        const float *column = reinterpret_cast<const float *>(room) + line;
        float whole = column[0];
#pragma unroll
        for (int y = 1; y < LINES; y++)
            whole += column[y * 4 * LANES];
        parts[blockIdx.y * cols + mine] = whole;
    }
}

extern "C" __global__ void __launch_bounds__(LANES *LINES)
    combine(const float *__restrict__ parts, float *__restrict__ bias, int cols, int count)
{
    __shared__ float room[LINES][LANES];
    const int col = blockIdx.x * LANES + threadIdx.x;
    float sum = 0.0f;
    if (col < cols)
        for (int part = threadIdx.y; part < count; part += LINES)
            sum += parts[part * cols + col];
    room[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && col < cols) {
#pragma unroll
        for (int y = 1; y < LINES; y++)
            sum += room[y][threadIdx.x];
        bias[col] = sum;
    }
}
