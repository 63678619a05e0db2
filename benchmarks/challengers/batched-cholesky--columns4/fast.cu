#define WIDTH 32
#define LANES 8
#define MATRICES (32 / LANES)
#define WARPS 2
#define QUADS (WIDTH / 4)
#define STRIDE (QUADS + 1)

// Eight lanes a matrix, four neighbouring columns a lane in registers: each factor that comes through shared memory serves
// four columns, a 16-byte load four matrices, and rows are loaded and stored whole without any staging.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 4)
    cholesky(const float *__restrict__ a, float *__restrict__ l, int batch, float shift)
{
    __shared__ float4 vectors[WARPS][2][MATRICES][STRIDE];
    const int lane = threadIdx.x % LANES, group = threadIdx.x % 32 / LANES, warp = threadIdx.x / 32;
    const int matrix = (blockIdx.x * WARPS + warp) * MATRICES + group;
    const size_t base = static_cast<size_t>(min(matrix, batch - 1)) * WIDTH * WIDTH + 4 * lane;
    const float *from = a + base;
    float *to = l + base;
    float own[WIDTH][4];
    if (lane == 0)
        for (int turn = 0; turn < 2; turn++)
            vectors[warp][turn][group][QUADS] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (lane <= i / 4)
            four = __ldcs(reinterpret_cast<const float4 *>(from + i * WIDTH));
        own[i][0] = four.x, own[i][1] = four.y, own[i][2] = four.z, own[i][3] = four.w;
        own[i][i % 4] += lane == i / 4 ? shift : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < WIDTH; k++) {
        float4 *vector = vectors[warp][k % 2][group];
        // The column's lane scales it, which ends row k; what lies in its quad above the next row counts as zero.
        const float scale = lane == k / 4 ? rsqrtf(own[k][k % 4]) : 1.0f;
#pragma unroll
        for (int i = k; i < WIDTH; i++)
            own[i][k % 4] *= scale;
        const bool before = lane < k / 4, upto = lane <= k / 4;
        if (matrix < batch)
            __stcs(reinterpret_cast<float4 *>(to + k * WIDTH),
                   make_float4(upto ? own[k][0] : 0.0f, (k % 4 >= 1 ? upto : before) ? own[k][1] : 0.0f,
                               (k % 4 >= 2 ? upto : before) ? own[k][2] : 0.0f,
                               (k % 4 >= 3 ? upto : before) ? own[k][3] : 0.0f));
        if (lane == k / 4) {
#pragma unroll
            for (int q = (k + 1) / 4; q < QUADS; q++)
                vector[q] = make_float4(4 * q > k ? own[4 * q][k % 4] : 0.0f, 4 * q + 1 > k ? own[4 * q + 1][k % 4] : 0.0f,
                                        4 * q + 2 > k ? own[4 * q + 2][k % 4] : 0.0f, own[4 * q + 3][k % 4]);
        }
        __syncwarp();
        const float4 mine = vector[lane < (k + 1) / 4 ? QUADS : lane];
#pragma unroll
        for (int q = (k + 1) / 4; q < QUADS; q++) {
            const float4 four = vector[q];
            const float other[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int i = 4 * q + e;
                if (i <= k)
                    continue;
                own[i][0] = fmaf(-other[e], mine.x, own[i][0]);
                own[i][1] = fmaf(-other[e], mine.y, own[i][1]);
                own[i][2] = fmaf(-other[e], mine.z, own[i][2]);
                own[i][3] = fmaf(-other[e], mine.w, own[i][3]);
            }
        }
    }
}
