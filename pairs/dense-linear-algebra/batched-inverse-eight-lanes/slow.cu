#define WARPS 4

// In place, one lane per row in registers; pivot rows go to all lanes by way of shared memory.
template <int N>
__global__ void __launch_bounds__(32 * WARPS)
    invert(const float *__restrict__ matrices, float *__restrict__ inverses, int batch)
{
    constexpr int WIDTH = (N + 3) / 4 * 4, STRIDE = N | 1;
    __shared__ float4 pivots[WARPS][2][WIDTH / 4];
    __shared__ float squares[WARPS][N * STRIDE];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int index = blockIdx.x * WARPS + warp;
    if (index >= batch)
        return;
    const float *from = matrices + static_cast<size_t>(index) * N * N;
    float *to = inverses + static_cast<size_t>(index) * N * N;
    float *square = squares[warp];
    for (int item = lane; item < N * N; item += 32)
        square[item / N * STRIDE + item % N] = __ldcs(from + item);
    __syncwarp();
    float a[WIDTH];
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
        a[j] = j < N && lane < N ? square[lane * STRIDE + j] : 0.0f;
#pragma unroll
    for (int k = 0; k < N; k++) {
        float4 *pivot = pivots[warp][k % 2];
        if (lane == k) {
            const float inverse = 1.0f / a[k];
            a[k] = 1.0f;
#pragma unroll
            for (int j = 0; j < N; j++)
                a[j] *= inverse;
#pragma unroll
            for (int q = 0; q < WIDTH / 4; q++)
                pivot[q] = make_float4(a[4 * q], a[4 * q + 1], a[4 * q + 2], a[4 * q + 3]);
        }
        __syncwarp();
        const float factor = lane == k ? 0.0f : a[k];
        if (lane != k)
            a[k] = 0.0f;
#pragma unroll
        for (int q = 0; q < WIDTH / 4; q++) {
            const float4 four = pivot[q];
            a[4 * q] -= factor * four.x;
            a[4 * q + 1] -= factor * four.y;
            a[4 * q + 2] -= factor * four.z;
            a[4 * q + 3] -= factor * four.w;
        }
    }
    if (lane < N) {
#pragma unroll
        for (int j = 0; j < N; j++)
            square[lane * STRIDE + j] = a[j];
    }
    __syncwarp();
    for (int item = lane; item < N * N; item += 32)
        __stcs(to + item, square[item / N * STRIDE + item % N]);
}
