// Four pixels a thread from a tile in shared memory. Both weights are powers of two, so their exponents add:
// the one in space comes from a table made once a block, and a tap takes one exponential, the
// hardware's own: weights too small for it are nothing beside the centre's.
#define TX 32
#define TY 8
#define DEEP 4

__device__ __forceinline__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

template <int RADIUS>
__global__ void __launch_bounds__(TX *TY)
    bilateral(const float *__restrict__ image, float *__restrict__ out, int height, int width, float sigma_space,
              float sigma_range)
{
    constexpr int SIDE = 2 * RADIUS + 1, WIDE = TX + 2 * RADIUS, HIGH = TY * DEEP + 2 * RADIUS;
    __shared__ float tile[HIGH][WIDE];
    __shared__ float table[SIDE * SIDE];
    const float log2e = 1.44269504f;
    const int tx = threadIdx.x, ty = threadIdx.y, id = ty * TX + tx;
    const int x0 = blockIdx.x * TX, y0 = blockIdx.y * TY * DEEP;
    for (int i = id; i < HIGH * WIDE; i += TX * TY) {
        const int sx = min(max(x0 + i % WIDE - RADIUS, 0), width - 1);
        const int sy = min(max(y0 + i / WIDE - RADIUS, 0), height - 1);
        tile[i / WIDE][i % WIDE] = __ldg(image + (size_t)sy * width + sx);
    }
    for (int i = id; i < SIDE * SIDE; i += TX * TY) {
        const int dx = i % SIDE - RADIUS, dy = i / SIDE - RADIUS;
        table[i] = -log2e * (dx * dx + dy * dy) / (2.0f * sigma_space * sigma_space);
    }
    __syncthreads();
    const float steep = -log2e / (2.0f * sigma_range * sigma_range);
    float centre[DEEP], sum[DEEP] = {}, norm[DEEP] = {};
#pragma unroll
    for (int i = 0; i < DEEP; i++)
        centre[i] = tile[ty + i * TY + RADIUS][tx + RADIUS];
    for (int dy = 0; dy < SIDE; dy++)
#pragma unroll
        for (int dx = 0; dx < SIDE; dx++) {
            const float space = table[dy * SIDE + dx];
#pragma unroll
            for (int i = 0; i < DEEP; i++) {
                const float value = tile[ty + i * TY + dy][tx + dx];
                const float diff = value - centre[i];
                const float weight = power_of_two(space + steep * diff * diff);
                sum[i] += weight * value;
                norm[i] += weight;
            }
        }
    const int x = x0 + tx;
#pragma unroll
    for (int i = 0; i < DEEP; i++) {
        const int y = y0 + ty + i * TY;
        if (x < width && y < height)
            out[(size_t)y * width + x] = __fdividef(sum[i], norm[i]);
    }
}
