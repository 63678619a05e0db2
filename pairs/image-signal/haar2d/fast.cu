// One level of `SIDE` x `SIDE` values: three parts of details are written, the averages stay in `low`.
template <int SIDE>
__device__ __forceinline__ void level(const float (&v)[SIDE][SIDE], float (&low)[SIDE / 2][SIDE / 2], float *to,
                                      int part_y, int part_x, int row, int col, int stride)
{
    constexpr int HALF = SIDE / 2;
#pragma unroll
    for (int i = 0; i < HALF; i++) {
        float across[HALF], down[HALF], both[HALF];
#pragma unroll
        for (int j = 0; j < HALF; j++) {
            const float a = v[2 * i][2 * j], b = v[2 * i][2 * j + 1], c = v[2 * i + 1][2 * j],
                        d = v[2 * i + 1][2 * j + 1];
            const float top = 0.5f * (a + b), bottom = 0.5f * (c + d), left = 0.5f * (a - b), right = 0.5f * (c - d);
            low[i][j] = 0.5f * (top + bottom);
            down[j] = 0.5f * (top - bottom);
            across[j] = 0.5f * (left + right);
            both[j] = 0.5f * (left - right);
        }
        float *upper = to + static_cast<size_t>(row * HALF + i) * stride + col * HALF;
        float *lower = upper + static_cast<size_t>(part_y) * stride;
        if constexpr (HALF == 4) {
            *reinterpret_cast<float4 *>(upper + part_x) = make_float4(across[0], across[1], across[2], across[3]);
            *reinterpret_cast<float4 *>(lower) = make_float4(down[0], down[1], down[2], down[3]);
            *reinterpret_cast<float4 *>(lower + part_x) = make_float4(both[0], both[1], both[2], both[3]);
        } else if constexpr (HALF == 2) {
            *reinterpret_cast<float2 *>(upper + part_x) = make_float2(across[0], across[1]);
            *reinterpret_cast<float2 *>(lower) = make_float2(down[0], down[1]);
            *reinterpret_cast<float2 *>(lower + part_x) = make_float2(both[0], both[1]);
        } else {
            upper[part_x] = across[0];
            lower[0] = down[0];
            lower[part_x] = both[0];
        }
    }
}

// Three levels need nothing from outside a square of eight: one thread per square, all in registers.
extern "C" __global__ void __launch_bounds__(128)
    haar(const float *__restrict__ image, float *__restrict__ out, int rows8, int cols8)
{
    const int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 4 + threadIdx.y;
    if (row >= rows8 || col >= cols8)
        return;
    const int width = 8 * cols8, height = 8 * rows8;
    float v[8][8], w[4][4], u[2][2], last[1][1];
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const float4 *from =
            reinterpret_cast<const float4 *>(image + static_cast<size_t>(8 * row + i) * width + 8 * col);
        const float4 a = __ldg(from), b = __ldg(from + 1);
        v[i][0] = a.x, v[i][1] = a.y, v[i][2] = a.z, v[i][3] = a.w;
        v[i][4] = b.x, v[i][5] = b.y, v[i][6] = b.z, v[i][7] = b.w;
    }
    level<8>(v, w, out, height / 2, width / 2, row, col, width);
    level<4>(w, u, out, height / 4, width / 4, row, col, width);
    level<2>(u, last, out, height / 8, width / 8, row, col, width);
    out[static_cast<size_t>(row) * width + col] = last[0][0];
}
