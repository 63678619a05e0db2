#define WARPS 4

// One lane per column, in registers. The lane of a reflection makes its vector alone and shows it to the others.
template <int N>
__global__ void __launch_bounds__(32 * WARPS) factor(float *__restrict__ matrices, float *__restrict__ taus, int batch)
{
    constexpr int HEIGHT = (N + 3) / 4 * 4;
    __shared__ float4 vectors[WARPS][2][HEIGHT / 4];
    __shared__ float factors[WARPS][2];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int index = blockIdx.x * WARPS + warp;
    if (index >= batch)
        return;
    float *matrix = matrices + static_cast<size_t>(index) * N * N;
    float a[HEIGHT];
    float own_tau = 0.0f;
#pragma unroll
    for (int i = 0; i < HEIGHT; i++)
        a[i] = i < N && lane < N ? matrix[i * N + lane] : 0.0f;
#pragma unroll
    for (int k = 0; k < N - 1; k++) {
        float4 *vector = vectors[warp][k % 2];
        if (lane == k) {
            float below[4] = {};
#pragma unroll
            for (int i = k + 1; i < N; i++)
                below[i % 4] += a[i] * a[i];
            const float rest = below[0] + below[1] + (below[2] + below[3]);
            if (rest != 0.0f) {
                const float alpha = a[k];
                const float length = sqrtf(alpha * alpha + rest), beta = alpha >= 0.0f ? -length : length;
                own_tau = (beta - alpha) / beta;
                const float inverse = 1.0f / (alpha - beta);
#pragma unroll
                for (int i = k + 1; i < N; i++)
                    a[i] *= inverse;
                a[k] = beta;
            }
            factors[warp][k % 2] = own_tau;
#pragma unroll
            for (int q = k / 4; q < HEIGHT / 4; q++)
                vector[q] = make_float4(a[4 * q], a[4 * q + 1], a[4 * q + 2], a[4 * q + 3]);
        }
        __syncwarp();
        float v[HEIGHT];
#pragma unroll
        for (int q = k / 4; q < HEIGHT / 4; q++) {
            const float4 four = vector[q];
            v[4 * q] = four.x, v[4 * q + 1] = four.y, v[4 * q + 2] = four.z, v[4 * q + 3] = four.w;
        }
        float sum[4] = {a[k], 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int i = k + 1; i < N; i++)
            sum[i % 4] += v[i] * a[i];
        const float share = (sum[0] + sum[1] + (sum[2] + sum[3])) * factors[warp][k % 2];
        if (lane > k) {
            a[k] -= share;
#pragma unroll
            for (int i = k + 1; i < N; i++)
                a[i] -= share * v[i];
        }
    }
    if (lane < N) {
#pragma unroll
        for (int i = 0; i < N; i++)
            matrix[i * N + lane] = a[i];
        taus[static_cast<size_t>(index) * N + lane] = own_tau;
    }
}
