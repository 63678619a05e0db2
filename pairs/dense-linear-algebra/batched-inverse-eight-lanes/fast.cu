#define WARPS 2

__host__ __device__ constexpr int lanes_for(int quads) { return quads <= 1 ? 1 : quads <= 2 ? 2 : quads <= 4 ? 4 : 8; }

// In place, four neighbouring columns a lane in registers, at most eight lanes a matrix: each factor that comes through
// shared memory serves four columns, a 16-byte load all matrices of a warp, and rows are loaded and stored without staging.
template <int N>
__global__ void __launch_bounds__(32 * WARPS, 4)
    invert(const float *__restrict__ matrices, float *__restrict__ inverses, int batch)
{
    constexpr int QUADS = (N + 3) / 4, LANES = lanes_for(QUADS), GROUPS = 32 / LANES, STRIDE = QUADS | 1;
    __shared__ float4 vectors[WARPS][2][GROUPS][STRIDE];
    const int lane = threadIdx.x % LANES, group = threadIdx.x % 32 / LANES, warp = threadIdx.x / 32;
    const int index = (blockIdx.x * WARPS + warp) * GROUPS + group;
    const size_t base = static_cast<size_t>(min(index, batch - 1)) * N * N + 4 * lane;
    float a[4 * QUADS][4];
#pragma unroll
    for (int i = 0; i < 4 * QUADS; i++) {
        const float *from = matrices + base + i * N;
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
    for (int k = 0; k < N; k++) {
        float4 *vector = vectors[warp][k % 2][group];
        // The pivot's lane shows its column with the pivot inverted, and makes way for the inverse's.
        if (lane == k / 4) {
            a[k][k % 4] = __fdividef(1.0f, a[k][k % 4]);
#pragma unroll
            for (int q = 0; q < QUADS; q++)
                vector[q] = make_float4(a[4 * q][k % 4], a[4 * q + 1][k % 4], a[4 * q + 2][k % 4], a[4 * q + 3][k % 4]);
#pragma unroll
            for (int i = 0; i < N; i++)
                a[i][k % 4] = i == k ? 1.0f : 0.0f;
        }
        __syncwarp();
        const float inverse = reinterpret_cast<const float *>(vector)[k];
#pragma unroll
        for (int c = 0; c < 4; c++)
            a[k][c] *= inverse;
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            const float4 four = vector[q];
            const float factor[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (4 * q + e != k && 4 * q + e < N)
#pragma unroll
                    for (int c = 0; c < 4; c++)
                        a[4 * q + e][c] = fmaf(-factor[e], a[k][c], a[4 * q + e][c]);
        }
    }
    if (index >= batch)
        return;
#pragma unroll
    for (int i = 0; i < N; i++) {
        float *to = inverses + base + i * N;
        if (N % 4 == 0) {
            if (lane < QUADS)
                __stcs(reinterpret_cast<float4 *>(to), make_float4(a[i][0], a[i][1], a[i][2], a[i][3]));
        } else {
#pragma unroll
            for (int c = 0; c < 4; c++)
                if (4 * lane + c < N)
                    __stcs(to + c, a[i][c]);
        }
    }
}
