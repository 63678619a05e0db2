#define WARPS 4
#define FULL 0xffffffffu

// A line of memory to registers, `ROWS` neighbouring elements per lane, by way of shared memory.
template <int ROWS>
__device__ __forceinline__ void take(float (&to)[ROWS], float *stage, const float *__restrict__ from, int first,
                                     int last, float otherwise)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int i = r * 32 + lane;
        stage[i / ROWS * (ROWS + 1) + i % ROWS] = i >= first && i < last ? __ldcs(from + i) : otherwise;
    }
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        to[r] = stage[lane * (ROWS + 1) + r];
    __syncwarp();
}

// Each lane reduces its rows to two equations; the last unknowns of all lanes form a system for the warp.
template <int ROWS>
__global__ void __launch_bounds__(32 * WARPS)
    solve(const float *__restrict__ lower, const float *__restrict__ diagonal, const float *__restrict__ upper,
          const float *__restrict__ right, float *__restrict__ x, int batch, int n)
{
    __shared__ float stages[WARPS][32 * (ROWS + 1)];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int system = blockIdx.x * WARPS + warp;
    if (system >= batch)
        return;
    float *stage = stages[warp];
    const size_t base = static_cast<size_t>(system) * n;
    float a[ROWS], b[ROWS], c[ROWS], d[ROWS];
    take<ROWS>(a, stage, lower + base, 1, n, 0.0f);
    take<ROWS>(b, stage, diagonal + base, 0, n, 1.0f);
    take<ROWS>(c, stage, upper + base, 0, n - 1, 0.0f);
    take<ROWS>(d, stage, right + base, 0, n, 0.0f);

#pragma unroll
    for (int r = 1; r < ROWS; r++) {
        const float w = a[r] / b[r - 1];
        b[r] -= w * c[r - 1];
        d[r] -= w * d[r - 1];
        a[r] = -w * a[r - 1];
    }
#pragma unroll
    for (int r = ROWS - 3; r >= 0; r--) {
        const float w = c[r] / b[r + 1];
        a[r] -= w * a[r + 1];
        d[r] -= w * d[r + 1];
        c[r] = -w * c[r + 1];
    }
    float left = a[ROWS - 1], own = b[ROWS - 1], next = c[ROWS - 1], value = d[ROWS - 1];
    const float first_a = __shfl_down_sync(FULL, a[0], 1), first_b = __shfl_down_sync(FULL, b[0], 1);
    const float first_c = __shfl_down_sync(FULL, c[0], 1), first_d = __shfl_down_sync(FULL, d[0], 1);
    const float share = lane < 31 ? next / first_b : 0.0f;
    own -= share * first_a;
    value -= share * first_d;
    next = -share * first_c;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const float left_a = __shfl_up_sync(FULL, left, distance), left_b = __shfl_up_sync(FULL, own, distance);
        const float left_c = __shfl_up_sync(FULL, next, distance), left_d = __shfl_up_sync(FULL, value, distance);
        const float right_a = __shfl_down_sync(FULL, left, distance), right_b = __shfl_down_sync(FULL, own, distance);
        const float right_c = __shfl_down_sync(FULL, next, distance), right_d = __shfl_down_sync(FULL, value, distance);
        const float up = lane >= distance ? left / left_b : 0.0f;
        const float down = lane + distance < 32 ? next / right_b : 0.0f;
        own -= up * left_c + down * right_a;
        value -= up * left_d + down * right_d;
        left = -up * left_a;
        next = -down * right_c;
    }
    const float last = value / own;
    float before = __shfl_up_sync(FULL, last, 1);
    if (lane == 0)
        before = 0.0f;
#pragma unroll
    for (int r = 0; r < ROWS - 1; r++)
        stage[lane * (ROWS + 1) + r] = (d[r] - a[r] * before - c[r] * last) / b[r];
    stage[lane * (ROWS + 1) + ROWS - 1] = last;
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int i = r * 32 + lane;
        if (i < n)
            __stcs(x + base + i, stage[i / ROWS * (ROWS + 1) + i % ROWS]);
    }
}
