#define WARPS 2

__host__ __device__ constexpr int lanes_for(int quads) { return quads <= 1 ? 1 : quads <= 2 ? 2 : quads <= 4 ? 4 : 8; }

// Four neighbouring columns a lane in registers, at most eight lanes a system: each factor that comes through shared memory
// serves four columns, a 16-byte load all systems of a warp. Elimination stops at the triangle; four unknowns at a time
// follow from sums over the lanes.
template <int N>
__global__ void __launch_bounds__(32 * WARPS, 4)
    solve(const float *__restrict__ matrices, const float *__restrict__ right, float *__restrict__ x, int batch)
{
    constexpr int QUADS = (N + 3) / 4, LANES = lanes_for(QUADS), GROUPS = 32 / LANES, STRIDE = QUADS + 1 | 1;
    __shared__ float4 vectors[WARPS][2][GROUPS][STRIDE];
    const int lane = threadIdx.x % LANES, group = threadIdx.x % 32 / LANES, warp = threadIdx.x / 32;
    const int system = (blockIdx.x * WARPS + warp) * GROUPS + group;
    const size_t which = min(system, batch - 1);
    float a[4 * QUADS][4], b[4], inverse[4] = {}, own[4] = {};
#pragma unroll
    for (int i = 0; i < 4 * QUADS; i++) {
        const float *from = matrices + (which * N + i) * N + 4 * lane;
        if (N % 4 == 0) {
            float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (lane < QUADS)
                four = __ldcs(reinterpret_cast<const float4 *>(from));
            a[i][0] = four.x, a[i][1] = four.y, a[i][2] = four.z, a[i][3] = four.w;
        } else {
#pragma unroll
            for (int c = 0; c < 4; c++)
                a[i][c] = i < N && 4 * lane + c < N ? __ldcs(from + c) : 0.0f;
        }
    }
#pragma unroll
    for (int c = 0; c < 4; c++)
        b[c] = 4 * lane + c < N ? right[which * N + 4 * lane + c] : 0.0f;
    if (lane == 0)
        for (int turn = 0; turn < 2; turn++)
            vectors[warp][turn][group][QUADS] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int k = 0; k < N; k++) {
        float4 *vector = vectors[warp][k % 2][group];
        // The pivot's lane makes the factors of the rows below, and zeros for those above in the same quad.
        if (lane == k / 4) {
            const float by = __fdividef(1.0f, a[k][k % 4]);
            inverse[k % 4] = by;
#pragma unroll
            for (int q = (k + 1) / 4; q < QUADS; q++)
                vector[q] = make_float4(4 * q > k ? a[4 * q][k % 4] * by : 0.0f,
                                        4 * q + 1 > k ? a[4 * q + 1][k % 4] * by : 0.0f,
                                        4 * q + 2 > k ? a[4 * q + 2][k % 4] * by : 0.0f, a[4 * q + 3][k % 4] * by);
        }
        __syncwarp();
        const float4 mine = vector[lane < (k + 1) / 4 || lane >= QUADS ? QUADS : lane];
        const float pivot = __shfl_sync(0xffffffffu, b[k % 4], k / 4, LANES);
        b[0] = fmaf(-mine.x, pivot, b[0]);
        b[1] = fmaf(-mine.y, pivot, b[1]);
        b[2] = fmaf(-mine.z, pivot, b[2]);
        b[3] = fmaf(-mine.w, pivot, b[3]);
#pragma unroll
        for (int q = (k + 1) / 4; q < QUADS; q++) {
            const float4 four = vector[q];
            const float factor[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (4 * q + e > k && 4 * q + e < N)
#pragma unroll
                    for (int c = 0; c < 4; c++)
                        a[4 * q + e][c] = fmaf(-factor[e], a[k][c], a[4 * q + e][c]);
        }
    }
#pragma unroll
    for (int q = QUADS - 1; q >= 0; q--) {
        float sum[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sum[e] = a[4 * q + e][0] * own[0] + a[4 * q + e][1] * own[1] +
                     (a[4 * q + e][2] * own[2] + a[4 * q + e][3] * own[3]);
#pragma unroll
            for (int offset = LANES / 2; offset > 0; offset /= 2)
                sum[e] += __shfl_xor_sync(0xffffffffu, sum[e], offset);
        }
        if (lane == q)
#pragma unroll
            for (int e = 3; e >= 0; e--) {
                float rest = b[e] - sum[e];
#pragma unroll
                for (int c = e + 1; c < 4; c++)
                    rest = fmaf(-a[4 * q + e][c], own[c], rest);
                own[e] = rest * inverse[e];
            }
    }
    if (system >= batch)
        return;
    float *to = x + which * N + 4 * lane;
    if (N % 4 == 0) {
        if (lane < QUADS)
            *reinterpret_cast<float4 *>(to) = make_float4(own[0], own[1], own[2], own[3]);
    } else {
#pragma unroll
        for (int c = 0; c < 4; c++)
            if (4 * lane + c < N)
                to[c] = own[c];
    }
}
