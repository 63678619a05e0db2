#define WARPS 2
#define COLS 2

__host__ __device__ constexpr int lanes_for(int pairs) { return pairs <= 1 ? 1 : pairs <= 2 ? 2 : pairs <= 4 ? 4 : pairs <= 8 ? 8 : 16; }

// Two neighbouring columns a lane in registers, at most sixteen lanes a system: each factor that comes through shared memory
// serves two columns, a 16-byte load all systems of a warp. Elimination stops at the triangle; two unknowns at a time
// follow from sums over the lanes.
template <int N>
__global__ void __launch_bounds__(32 * WARPS, 6)
    solve(const float *__restrict__ matrices, const float *__restrict__ right, float *__restrict__ x, int batch)
{
    constexpr int QUADS = (N + 3) / 4, LANES = lanes_for((N + 1) / 2), GROUPS = 32 / LANES, STRIDE = QUADS + 1 | 1;
    __shared__ float4 vectors[WARPS][2][GROUPS][STRIDE];
    const int lane = threadIdx.x % LANES, group = threadIdx.x % 32 / LANES, warp = threadIdx.x / 32;
    const int system = (blockIdx.x * WARPS + warp) * GROUPS + group;
    const size_t which = min(system, batch - 1);
    float a[4 * QUADS][COLS], b[COLS], inverse[COLS] = {}, own[COLS] = {};
#pragma unroll
    for (int i = 0; i < 4 * QUADS; i++) {
        const float *from = matrices + (which * N + i) * N + COLS * lane;
        if (N % COLS == 0) {
            float2 two = make_float2(0.0f, 0.0f);
            if (lane < N / COLS)
                two = __ldcs(reinterpret_cast<const float2 *>(from));
            a[i][0] = two.x, a[i][1] = two.y;
        } else {
#pragma unroll
            for (int c = 0; c < COLS; c++)
                a[i][c] = i < N && COLS * lane + c < N ? __ldcs(from + c) : 0.0f;
        }
    }
#pragma unroll
    for (int c = 0; c < COLS; c++)
        b[c] = COLS * lane + c < N ? right[which * N + COLS * lane + c] : 0.0f;
    if (lane == 0)
        for (int turn = 0; turn < 2; turn++)
            vectors[warp][turn][group][QUADS] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int k = 0; k < N; k++) {
        float4 *vector = vectors[warp][k % 2][group];
        // The pivot's lane makes the factors of the rows below, and zeros for those above in the same quad.
        if (lane == k / COLS) {
            const float by = __fdividef(1.0f, a[k][k % COLS]);
            inverse[k % COLS] = by;
#pragma unroll
            for (int q = (k + 1) / 4; q < QUADS; q++)
                vector[q] = make_float4(4 * q > k ? a[4 * q][k % COLS] * by : 0.0f,
                                        4 * q + 1 > k ? a[4 * q + 1][k % COLS] * by : 0.0f,
                                        4 * q + 2 > k ? a[4 * q + 2][k % COLS] * by : 0.0f, a[4 * q + 3][k % COLS] * by);
        }
        __syncwarp();
        const float2 mine = reinterpret_cast<const float2 *>(
            vector)[lane < (k + 1) / COLS || lane >= 2 * QUADS ? 2 * QUADS : lane];
        const float pivot = __shfl_sync(0xffffffffu, b[k % COLS], k / COLS, LANES);
        b[0] = fmaf(-mine.x, pivot, b[0]);
        b[1] = fmaf(-mine.y, pivot, b[1]);
#pragma unroll
        for (int q = (k + 1) / 4; q < QUADS; q++) {
            const float4 four = vector[q];
            const float factor[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (4 * q + e > k && 4 * q + e < N)
#pragma unroll
                    for (int c = 0; c < COLS; c++)
                        a[4 * q + e][c] = fmaf(-factor[e], a[k][c], a[4 * q + e][c]);
        }
    }
#pragma unroll
    for (int q = (N - 1) / COLS; q >= 0; q--) {
        float sum[COLS];
#pragma unroll
        for (int e = 0; e < COLS; e++) {
            sum[e] = a[COLS * q + e][0] * own[0] + a[COLS * q + e][1] * own[1];
#pragma unroll
            for (int offset = LANES / 2; offset > 0; offset /= 2)
                sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], offset);
        }
        if (lane == q) {
            own[1] = (b[1] - sum[1]) * inverse[1];
            own[0] = fmaf(-a[COLS * q][1], own[1], b[0] - sum[0]) * inverse[0];
        }
    }
    if (system >= batch)
        return;
    float *to = x + which * N + COLS * lane;
    if (N % COLS == 0) {
        if (lane < N / COLS)
            *reinterpret_cast<float2 *>(to) = make_float2(own[0], own[1]);
    } else {
#pragma unroll
        for (int c = 0; c < COLS; c++)
            if (COLS * lane + c < N)
                to[c] = own[c];
    }
}
