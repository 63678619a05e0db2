#define WARPS 2

__host__ __device__ constexpr int lanes_for(int pairs)
{
    return pairs <= 1 ? 1 : pairs <= 2 ? 2 : pairs <= 4 ? 4 : pairs <= 8 ? 8 : 16;
}

// Two neighbouring columns a lane in registers, at most sixteen lanes a matrix: few enough registers for eight blocks a
// multiprocessor, and little more than half the code of four columns. A reflection's vector comes through shared memory
// four elements at a time. Every lane finds the reflection itself, so that a step has one barrier of the warp.
template <int N>
__global__ void __launch_bounds__(32 * WARPS, 8)
    factor(float *__restrict__ matrices, float *__restrict__ taus, int batch)
{
    constexpr int QUADS = (N + 3) / 4, PAIRS = (N + 1) / 2, STRIDE = QUADS | 1;
    constexpr int LANES = lanes_for(PAIRS), GROUPS = 32 / LANES;
    __shared__ float4 vectors[WARPS][2][GROUPS][STRIDE];
    const int lane = threadIdx.x % LANES, group = threadIdx.x % 32 / LANES, warp = threadIdx.x / 32;
    const int index = (blockIdx.x * WARPS + warp) * GROUPS + group;
    const size_t which = min(index, batch - 1);
    float a[4 * QUADS][2], own_tau[2] = {};
#pragma unroll
    for (int i = 0; i < 4 * QUADS; i++) {
        const float *from = matrices + (which * N + i) * N + 2 * lane;
        if (N % 2 == 0) {
            float2 two = make_float2(0.0f, 0.0f);
            if (i < N && lane < PAIRS)
                two = __ldcs(reinterpret_cast<const float2 *>(from));
            a[i][0] = two.x, a[i][1] = two.y;
        } else {
#pragma unroll
            for (int c = 0; c < 2; c++)
                a[i][c] = i < N && 2 * lane + c < N ? __ldcs(from + c) : 0.0f;
        }
    }
#pragma unroll
    for (int k = 0; k < N - 1; k++) {
        float4 *vector = vectors[warp][k % 2][group];
        if (lane == k / 2)
#pragma unroll
            for (int q = k / 4; q < QUADS; q++)
                vector[q] = make_float4(a[4 * q][k % 2], a[4 * q + 1][k % 2], a[4 * q + 2][k % 2], a[4 * q + 3][k % 2]);
        __syncwarp();
        float v[4 * QUADS], square[4] = {};
#pragma unroll
        for (int q = k / 4; q < QUADS; q++) {
            const float4 four = vector[q];
            v[4 * q] = four.x, v[4 * q + 1] = four.y, v[4 * q + 2] = four.z, v[4 * q + 3] = four.w;
        }
        float sum[2] = {};
#pragma unroll
        for (int i = k + 1; i < N; i++) {
            square[i % 4] = fmaf(v[i], v[i], square[i % 4]);
#pragma unroll
            for (int c = 0; c < 2; c++)
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
        float share[2], by[2];
#pragma unroll
        for (int c = 0; c < 2; c++) {
            const bool later = lane > k / 2 || (lane == k / 2 && c > k % 2);
            share[c] = later ? fmaf(scale, sum[c], a[k][c]) * tau : 0.0f;
            by[c] = share[c] * scale;
            a[k][c] -= share[c];
        }
#pragma unroll
        for (int i = k + 1; i < N; i++)
#pragma unroll
            for (int c = 0; c < 2; c++)
                a[i][c] = fmaf(-by[c], v[i], a[i][c]);
        if (lane == k / 2) {
            own_tau[k % 2] = tau;
            a[k][k % 2] = beta;
#pragma unroll
            for (int i = k + 1; i < N; i++)
                a[i][k % 2] *= scale;
        }
    }
    if (index >= batch)
        return;
#pragma unroll
    for (int i = 0; i < N; i++) {
        float *to = matrices + (which * N + i) * N + 2 * lane;
        if (N % 2 == 0) {
            if (lane < PAIRS)
                __stcs(reinterpret_cast<float2 *>(to), make_float2(a[i][0], a[i][1]));
        } else {
#pragma unroll
            for (int c = 0; c < 2; c++)
                if (2 * lane + c < N)
                    to[c] = a[i][c];
        }
    }
#pragma unroll
    for (int c = 0; c < 2; c++)
        if (2 * lane + c < N)
            taus[which * N + 2 * lane + c] = own_tau[c];
}
