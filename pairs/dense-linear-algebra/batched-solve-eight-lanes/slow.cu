#define WARPS 4

// One lane per row. Each pivot row goes to all lanes by way of shared memory; two places for it save a barrier.
template <int N>
__global__ void __launch_bounds__(32 * WARPS)
    solve(const float *__restrict__ matrices, const float *__restrict__ right, float *__restrict__ x, int batch)
{
    constexpr int WIDTH = (N + 4) / 4 * 4;
    __shared__ float4 pivots[WARPS][2][WIDTH / 4];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int system = blockIdx.x * WARPS + warp;
    if (system >= batch)
        return;
    const int row = min(lane, N - 1);
    const float *from = matrices + (static_cast<size_t>(system) * N + row) * N;
    float a[WIDTH];
    if (N % 4 == 0) {
#pragma unroll
        for (int q = 0; q < N / 4; q++) {
            const float4 four = __ldg(reinterpret_cast<const float4 *>(from) + q);
            a[4 * q] = four.x, a[4 * q + 1] = four.y, a[4 * q + 2] = four.z, a[4 * q + 3] = four.w;
        }
    } else {
#pragma unroll
        for (int j = 0; j < N; j++)
            a[j] = __ldg(from + j);
    }
    a[N] = __ldg(right + static_cast<size_t>(system) * N + row);
#pragma unroll
    for (int j = N + 1; j < WIDTH; j++)
        a[j] = 0.0f;
#pragma unroll
    for (int k = 0; k < N; k++) {
        float4 *pivot = pivots[warp][k % 2];
        if (lane == k) {
#pragma unroll
            for (int q = k / 4; q < WIDTH / 4; q++)
                pivot[q] = make_float4(a[4 * q], a[4 * q + 1], a[4 * q + 2], a[4 * q + 3]);
        }
        __syncwarp();
        const float factor = lane == k ? 0.0f : a[k] / reinterpret_cast<const float *>(pivot)[k];
#pragma unroll
        for (int q = k / 4; q < WIDTH / 4; q++) {
            const float4 four = pivot[q];
            if (4 * q > k)
                a[4 * q] -= factor * four.x;
            if (4 * q + 1 > k)
                a[4 * q + 1] -= factor * four.y;
            if (4 * q + 2 > k)
                a[4 * q + 2] -= factor * four.z;
            if (4 * q + 3 > k)
                a[4 * q + 3] -= factor * four.w;
        }
    }
    float own = 1.0f;
#pragma unroll
    for (int k = 0; k < N; k++)
        if (lane == k)
            own = a[k];
    if (lane < N)
        x[static_cast<size_t>(system) * N + lane] = a[N] / own;
}
