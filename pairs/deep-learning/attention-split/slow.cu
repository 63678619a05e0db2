#define DIM 64
#define TILE 64
#define PITCH (TILE + 4)
#define THREADS 256
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

__device__ __forceinline__ void load_turned(float (*to)[PITCH], const float *__restrict__ from, int first, int n)
{
#pragma unroll
    for (int item = threadIdx.x; item < TILE * DIM / 4; item += THREADS) {
        const int row = item % TILE, d = item / TILE * 4;
        float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (first + row < n)
            value = *reinterpret_cast<const float4 *>(from + (first + row) * DIM + d);
        to[d][row] = value.x;
        to[d + 1][row] = value.y;
        to[d + 2][row] = value.z;
        to[d + 3][row] = value.w;
    }
}

__device__ __forceinline__ void load_straight(float (*to)[PITCH], const float *__restrict__ from, int first, int n)
{
#pragma unroll
    for (int item = threadIdx.x; item < TILE * DIM / 4; item += THREADS) {
        const int row = item / (DIM / 4), d = item % (DIM / 4) * 4;
        float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (first + row < n)
            value = *reinterpret_cast<const float4 *>(from + (first + row) * DIM + d);
        *reinterpret_cast<float4 *>(&to[row][d]) = value;
    }
}

__device__ __forceinline__ void add_outer(float (*sum)[4], const float *p, float4 q)
{
#pragma unroll
    for (int r = 0; r < 4; r++) {
        sum[r][0] = fmaf(p[r], q.x, sum[r][0]);
        sum[r][1] = fmaf(p[r], q.y, sum[r][1]);
        sum[r][2] = fmaf(p[r], q.z, sum[r][2]);
        sum[r][3] = fmaf(p[r], q.w, sum[r][3]);
    }
}

__device__ __forceinline__ float team_max(float value)
{
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL, value, offset));
    return value;
}

__device__ __forceinline__ float team_sum(float value)
{
#pragma unroll
    for (int offset = 8; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    attention(const float *__restrict__ q, const float *__restrict__ k, const float *__restrict__ v,
              float *__restrict__ out, int n, float scale)
{
    extern __shared__ __align__(16) float room[];
    float(*queries)[PITCH] = reinterpret_cast<float(*)[PITCH]>(room);
    float(*keys)[PITCH] = queries + DIM;
    float(*values)[PITCH] = keys + DIM;
    float(*weights)[PITCH] = values + TILE;
    const int y = threadIdx.x / 16 * 4, x = threadIdx.x % 16 * 4;
    const int first = blockIdx.x * TILE;
    const size_t head = (size_t)blockIdx.y * n * DIM;
    float sum[4][4] = {};
    float largest[4] = {LOWEST, LOWEST, LOWEST, LOWEST};
    float total[4] = {};

    load_turned(queries, q + head, first, n);
    for (int base = 0; base < n; base += TILE) {
        load_turned(keys, k + head, base, n);
        load_straight(values, v + head, base, n);
        __syncthreads();

        float score[4][4] = {};
#pragma unroll 8
        for (int d = 0; d < DIM; d++) {
            const float4 left = *reinterpret_cast<const float4 *>(&queries[d][y]);
            const float p[4] = {left.x, left.y, left.z, left.w};
            add_outer(score, p, *reinterpret_cast<const float4 *>(&keys[d][x]));
        }
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float mine = largest[r];
#pragma unroll
            for (int s = 0; s < 4; s++) {
                score[r][s] = base + x + s < n ? score[r][s] * scale : LOWEST;
                mine = fmaxf(mine, score[r][s]);
            }
            mine = team_max(mine);
            const float shrink = __expf(largest[r] - mine);
            largest[r] = mine;
            total[r] *= shrink;
            float4 weight;
            weight.x = __expf(score[r][0] - mine);
            weight.y = __expf(score[r][1] - mine);
            weight.z = __expf(score[r][2] - mine);
            weight.w = __expf(score[r][3] - mine);
            total[r] += (weight.x + weight.y) + (weight.z + weight.w);
            *reinterpret_cast<float4 *>(&weights[y + r][x]) = weight;
#pragma unroll
            for (int s = 0; s < 4; s++)
                sum[r][s] *= shrink;
        }
        __syncwarp();
#pragma unroll 4
        for (int j = 0; j < TILE; j += 4) {
            float4 left[4];
#pragma unroll
            for (int r = 0; r < 4; r++)
                left[r] = *reinterpret_cast<const float4 *>(&weights[y + r][j]);
            const float p[4][4] = {{left[0].x, left[1].x, left[2].x, left[3].x},
                                   {left[0].y, left[1].y, left[2].y, left[3].y},
                                   {left[0].z, left[1].z, left[2].z, left[3].z},
                                   {left[0].w, left[1].w, left[2].w, left[3].w}};
#pragma unroll
            for (int s = 0; s < 4; s++)
                add_outer(sum, p[s], *reinterpret_cast<const float4 *>(&values[j + s][x]));
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const float share = 1.0f / team_sum(total[r]);
        if (first + y + r < n)
            *reinterpret_cast<float4 *>(out + head + (first + y + r) * DIM + x) =
                make_float4(sum[r][0] * share, sum[r][1] * share, sum[r][2] * share, sum[r][3] * share);
    }
}
