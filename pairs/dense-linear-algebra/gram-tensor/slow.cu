#define WIDTH 32
#define OUTPUTS (WIDTH * WIDTH)
#define THREADS 256
#define GROUPS 4
#define ROWS 64

__device__ __forceinline__ void load_rows(float4 *held, const float4 *__restrict__ a, int first, int n)
{
#pragma unroll
    for (int part = 0; part < ROWS * WIDTH / 4 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS;
        const bool inside = first + item / (WIDTH / 4) < n;
        held[part] = inside ? __ldcs(a + (size_t)first * (WIDTH / 4) + item) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
}

__device__ __forceinline__ void add_row(float (*sum)[4], const float *row, int y, int x)
{
    const float4 p = *reinterpret_cast<const float4 *>(row + y);
    const float4 q = *reinterpret_cast<const float4 *>(row + x);
    const float left[4] = {p.x, p.y, p.z, p.w};
    const float right[4] = {q.x, q.y, q.z, q.w};
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int s = 0; s < 4; s++)
            sum[r][s] = fmaf(left[r], right[s], sum[r][s]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    gram(const float4 *__restrict__ a, float *__restrict__ partial, int n)
{
    __shared__ __align__(16) float tile[ROWS][WIDTH];
    __shared__ float whole[OUTPUTS];
    const int group = threadIdx.x / 64;
    const int y = threadIdx.x % 64 / 8 * 4, x = threadIdx.x % 8 * 4;
    const int stride = gridDim.x * ROWS;
    float sum[4][4] = {};
    float4 held[ROWS * WIDTH / 4 / THREADS];

    load_rows(held, a, blockIdx.x * ROWS, n);
    for (int first = blockIdx.x * ROWS; first < n; first += stride) {
#pragma unroll
        for (int part = 0; part < ROWS * WIDTH / 4 / THREADS; part++)
            reinterpret_cast<float4 *>(tile)[threadIdx.x + part * THREADS] = held[part];
        __syncthreads();
        if (first + stride < n)
            load_rows(held, a, first + stride, n);
#pragma unroll 4
        for (int row = group; row < ROWS; row += GROUPS)
            add_row(sum, tile[row], y, x);
        __syncthreads();
    }
    for (int turn = 0; turn < GROUPS; turn++) {
        if (turn == group)
#pragma unroll
            for (int r = 0; r < 4; r++)
#pragma unroll
                for (int s = 0; s < 4; s++) {
                    const int at = (y + r) * WIDTH + x + s;
                    whole[at] = turn == 0 ? sum[r][s] : whole[at] + sum[r][s];
                }
        __syncthreads();
    }
    for (int at = threadIdx.x; at < OUTPUTS; at += THREADS)
        partial[blockIdx.x * OUTPUTS + at] = whole[at];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    combine(const float *__restrict__ partial, float *__restrict__ g, int parts)
{
    __shared__ float room[THREADS / 32][32];
    const int lane = threadIdx.x % 32, slice = threadIdx.x / 32;
    const int at = blockIdx.x * 32 + lane;
    float sum = 0.0f;
    for (int part = slice; part < parts; part += THREADS / 32)
        sum += partial[part * OUTPUTS + at];
    room[slice][lane] = sum;
    __syncthreads();
    if (slice == 0) {
        sum = room[0][lane];
#pragma unroll
        for (int other = 1; other < THREADS / 32; other++)
            sum += room[other][lane];
        g[at] = sum;
    }
}
