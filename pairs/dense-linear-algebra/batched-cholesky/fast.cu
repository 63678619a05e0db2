#define WIDTH 32
#define LANES (WIDTH / COLS)
#define MATRICES (32 / LANES)
#define WARPS 2
#define COLS 2
#define QUADS (WIDTH / 4)
#define STRIDE (QUADS + 1)

// Sixteen lanes a matrix, two neighbouring columns a lane in registers: each factor that comes through shared memory serves
// two columns, a 16-byte load two matrices, and rows are loaded and stored whole without any staging.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    cholesky(const float *__restrict__ a, float *__restrict__ l, int batch, float shift)
{
    __shared__ float4 vectors[WARPS][2][MATRICES][STRIDE];
    const int lane = threadIdx.x % LANES, group = threadIdx.x % 32 / LANES, warp = threadIdx.x / 32;
    const int matrix = (blockIdx.x * WARPS + warp) * MATRICES + group;
    const size_t base = static_cast<size_t>(min(matrix, batch - 1)) * WIDTH * WIDTH + COLS * lane;
    const float *from = a + base;
    float *to = l + base;
    float own[WIDTH][COLS];
    if (lane == 0)
        for (int turn = 0; turn < 2; turn++)
            vectors[warp][turn][group][QUADS] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int i = 0; i < WIDTH; i++) {
        float2 two = make_float2(0.0f, 0.0f);
        if (lane <= i / COLS)
            two = __ldcs(reinterpret_cast<const float2 *>(from + i * WIDTH));
        own[i][0] = two.x, own[i][1] = two.y;
        own[i][i % COLS] += lane == i / COLS ? shift : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < WIDTH; k++) {
        float4 *vector = vectors[warp][k % 2][group];
        // The column's lane scales it, which ends row k; what lies in its quad above the next row counts as zero.
        const float scale = lane == k / COLS ? rsqrtf(own[k][k % COLS]) : 1.0f;
#pragma unroll
        for (int i = k; i < WIDTH; i++)
            own[i][k % COLS] *= scale;
        const bool before = lane < k / COLS, upto = lane <= k / COLS;
        if (matrix < batch)
            __stcs(reinterpret_cast<float2 *>(to + k * WIDTH),
                   make_float2(upto ? own[k][0] : 0.0f, (k % COLS >= 1 ? upto : before) ? own[k][1] : 0.0f));
        if (lane == k / COLS) {
#pragma unroll
            for (int q = (k + 1) / 4; q < QUADS; q++)
                vector[q] = make_float4(4 * q > k ? own[4 * q][k % COLS] : 0.0f, 4 * q + 1 > k ? own[4 * q + 1][k % COLS] : 0.0f,
                                        4 * q + 2 > k ? own[4 * q + 2][k % COLS] : 0.0f, own[4 * q + 3][k % COLS]);
        }
        __syncwarp();
        const float2 mine = reinterpret_cast<const float2 *>(vector)[lane < (k + 1) / COLS ? 2 * QUADS : lane];
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
            }
        }
    }
}
