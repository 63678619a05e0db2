#define WARPS 2

__host__ __device__ constexpr int lanes_for(int quads) { return quads <= 1 ? 1 : quads <= 2 ? 2 : quads <= 4 ? 4 : 8; }

// Four neighbouring columns a lane in registers, at most eight lanes a matrix: each element of a reflection's vector that
// comes through shared memory serves four columns, a 16-byte load all matrices of a warp. Every lane finds the
// reflection itself, so that a step has one barrier of the warp.
template <int N>
__global__ void __launch_bounds__(32 * WARPS, 4) factor(float *__restrict__ matrices, float *__restrict__ taus, int batch)
{
    constexpr int QUADS = (N + 3) / 4, LANES = lanes_for(QUADS), GROUPS = 32 / LANES, STRIDE = QUADS | 1;
    __shared__ float4 vectors[WARPS][2][GROUPS][STRIDE];
    const int lane = threadIdx.x % LANES, group = threadIdx.x % 32 / LANES, warp = threadIdx.x / 32;
    const int index = (blockIdx.x * WARPS + warp) * GROUPS + group;
    const size_t which = min(index, batch - 1);
    float a[4 * QUADS][4], own_tau[4] = {};
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
    for (int k = 0; k < N - 1; k++) {
        float4 *vector = vectors[warp][k % 2][group];
        if (lane == k / 4)
#pragma unroll
            for (int q = k / 4; q < QUADS; q++)
                vector[q] = make_float4(a[4 * q][k % 4], a[4 * q + 1][k % 4], a[4 * q + 2][k % 4], a[4 * q + 3][k % 4]);
        __syncwarp();
        float v[4 * QUADS], square[4] = {};
#pragma unroll
        for (int q = k / 4; q < QUADS; q++) {
            const float4 four = vector[q];
            v[4 * q] = four.x, v[4 * q + 1] = four.y, v[4 * q + 2] = four.z, v[4 * q + 3] = four.w;
        }
        float sum[4] = {};
#pragma unroll
        for (int i = k + 1; i < N; i++) {
            square[i % 4] = fmaf(v[i], v[i], square[i % 4]);
#pragma unroll
            for (int c = 0; c < 4; c++)
                sum[c] = fmaf(v[i], a[i][c], sum[c]);
        }
        // The vector is one at k and v * scale below.
        const float rest = square[0] + square[1] + (square[2] + square[3]), alpha = v[k];
        float scale = 0.0f, tau = 0.0f, beta = alpha;
        if (rest != 0.0f) {
            const float whole = fmaf(alpha, alpha, rest), length = whole * rsqrtf(whole);
            beta = alpha >= 0.0f ? -length : length;
            tau = __fdividef(beta - alpha, beta);
            scale = __fdividef(1.0f, alpha - beta);
        }
        float share[4], by[4];
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const bool later = lane > k / 4 || (lane == k / 4 && c > k % 4);
            share[c] = later ? fmaf(scale, sum[c], a[k][c]) * tau : 0.0f;
            by[c] = share[c] * scale;
            a[k][c] -= share[c];
        }
#pragma unroll
        for (int i = k + 1; i < N; i++)
#pragma unroll
            for (int c = 0; c < 4; c++)
                a[i][c] = fmaf(-by[c], v[i], a[i][c]);
        if (lane == k / 4) {
            own_tau[k % 4] = tau;
            a[k][k % 4] = beta;
#pragma unroll
            for (int i = k + 1; i < N; i++)
                a[i][k % 4] *= scale;
        }
    }
    if (index >= batch)
        return;
#pragma unroll
    for (int i = 0; i < N; i++) {
        float *to = matrices + (which * N + i) * N + 4 * lane;
        if (N % 4 == 0) {
            if (lane < QUADS)
                __stcs(reinterpret_cast<float4 *>(to), make_float4(a[i][0], a[i][1], a[i][2], a[i][3]));
        } else {
#pragma unroll
            for (int c = 0; c < 4; c++)
                if (4 * lane + c < N)
                    to[c] = a[i][c];
        }
    }
#pragma unroll
    for (int c = 0; c < 4; c++)
        if (4 * lane + c < N)
            taus[which * N + 4 * lane + c] = own_tau[c];
}
