#define WARPS 4
#define FULL 0xffffffffu

__device__ __forceinline__ float inverse_of(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Where the c-th quad of a line lies, so that neither reading in order nor a lane's own quads meet in a bank.
__device__ __forceinline__ int place(int c) { return c ^ (c / 8 & 3); }

// A line of `n` elements, a multiple of four, on its way to shared memory; zeros past its end.
template <int ROWS>
__device__ __forceinline__ void request(float4 *stage, const float *__restrict__ from, int n)
{
#pragma unroll
    for (int r = 0; r < ROWS / 4; r++) {
        const int c = r * 32 + threadIdx.x % 32;
        const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(stage + place(c)));
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from + (4 * c < n ? 4 * c : 0)),
                     "r"(4 * c < n ? 16 : 0)
                     : "memory");
    }
}

template <int ROWS>
__device__ __forceinline__ void take(float (&to)[ROWS], const float4 *stage)
{
#pragma unroll
    for (int q = 0; q < ROWS / 4; q++) {
        const float4 four = stage[place(threadIdx.x % 32 * (ROWS / 4) + q)];
        to[4 * q] = four.x, to[4 * q + 1] = four.y, to[4 * q + 2] = four.z, to[4 * q + 3] = four.w;
    }
}

// The same for lines of any length, element by element.
template <int ROWS>
__device__ __forceinline__ void take_any(float (&to)[ROWS], float *stage, const float *__restrict__ from, int n)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const int i = r * 32 + lane;
        stage[i / ROWS * (ROWS + 1) + i % ROWS] = i < n ? __ldcs(from + i) : 0.0f;
    }
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        to[r] = stage[lane * (ROWS + 1) + r];
    __syncwarp();
}

// Each lane reduces its rows to two equations; the last unknowns of all lanes form a system for the warp. All four lines
// are on their way at once, and of each pivot only the reciprocal is kept.
template <int ROWS>
__global__ void __launch_bounds__(32 * WARPS, ROWS <= 16 ? 6 : 2)
    solve(const float *__restrict__ lower, const float *__restrict__ diagonal, const float *__restrict__ upper,
          const float *__restrict__ right, float *__restrict__ x, int batch, int n)
{
    extern __shared__ float4 stages[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int system = blockIdx.x * WARPS + warp;
    if (system >= batch)
        return;
    float4(*stage)[ROWS * 8 + 8] = reinterpret_cast<float4(*)[ROWS * 8 + 8]>(stages) + 4 * warp;
    const bool quads = ROWS >= 4 && n % 4 == 0;
    const size_t base = static_cast<size_t>(system) * n;
    float a[ROWS], b[ROWS], c[ROWS], d[ROWS];
    if (quads) {
        request<ROWS>(stage[0], lower + base, n);
        request<ROWS>(stage[1], diagonal + base, n);
        request<ROWS>(stage[2], upper + base, n);
        request<ROWS>(stage[3], right + base, n);
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncwarp();
        take<ROWS>(a, stage[0]);
        take<ROWS>(b, stage[1]);
        take<ROWS>(c, stage[2]);
        take<ROWS>(d, stage[3]);
    } else {
        float *elements = reinterpret_cast<float *>(stage[0]);
        take_any<ROWS>(a, elements, lower + base, n);
        take_any<ROWS>(b, elements, diagonal + base, n);
        take_any<ROWS>(c, elements, upper + base, n);
        take_any<ROWS>(d, elements, right + base, n);
    }
    if (lane == 0)
        a[0] = 0.0f;
    if (n == 32 * ROWS) {
        if (lane == 31)
            c[ROWS - 1] = 0.0f;
    } else {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            b[r] = lane * ROWS + r < n ? b[r] : 1.0f;
            c[r] = lane * ROWS + r < n - 1 ? c[r] : 0.0f;
        }
    }
    // From here on b[r] is the pivot's reciprocal, but for the last row.
#pragma unroll
    for (int r = 1; r < ROWS; r++) {
        b[r - 1] = inverse_of(b[r - 1]);
        const float w = a[r] * b[r - 1];
        b[r] -= w * c[r - 1];
        d[r] -= w * d[r - 1];
        a[r] = -w * a[r - 1];
    }
#pragma unroll
    for (int r = ROWS - 3; r >= 0; r--) {
        const float w = c[r] * b[r + 1];
        a[r] -= w * a[r + 1];
        d[r] -= w * d[r + 1];
        c[r] = -w * c[r + 1];
    }
    float left = a[ROWS - 1], own = b[ROWS - 1], next = c[ROWS - 1], value = d[ROWS - 1];
    const float first_a = __shfl_down_sync(FULL, a[0], 1), first_b = __shfl_down_sync(FULL, b[0], 1);
    const float first_c = __shfl_down_sync(FULL, c[0], 1), first_d = __shfl_down_sync(FULL, d[0], 1);
    const float share = lane < 31 ? next * first_b : 0.0f;
    own -= share * first_a;
    value -= share * first_d;
    next = -share * first_c;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const float inverse = inverse_of(own);
        const float left_a = __shfl_up_sync(FULL, left, distance), left_b = __shfl_up_sync(FULL, inverse, distance);
        const float left_c = __shfl_up_sync(FULL, next, distance), left_d = __shfl_up_sync(FULL, value, distance);
        const float right_a = __shfl_down_sync(FULL, left, distance);
        const float right_b = __shfl_down_sync(FULL, inverse, distance);
        const float right_c = __shfl_down_sync(FULL, next, distance), right_d = __shfl_down_sync(FULL, value, distance);
        const float up = lane >= distance ? left * left_b : 0.0f;
        const float down = lane + distance < 32 ? next * right_b : 0.0f;
        own -= up * left_c + down * right_a;
        value -= up * left_d + down * right_d;
        left = -up * left_a;
        next = -down * right_c;
    }
    const float last = value * inverse_of(own);
    float before = __shfl_up_sync(FULL, last, 1);
    if (lane == 0)
        before = 0.0f;
#pragma unroll
    for (int r = 0; r < ROWS - 1; r++)
        d[r] = (d[r] - a[r] * before - c[r] * last) * b[r];
    d[ROWS - 1] = last;
    if (quads) {
#pragma unroll
        for (int q = 0; q < ROWS / 4; q++)
            stage[0][place(lane * (ROWS / 4) + q)] =
                make_float4(d[4 * q], d[(4 * q + 1) % ROWS], d[(4 * q + 2) % ROWS], d[(4 * q + 3) % ROWS]);
        __syncwarp();
#pragma unroll
        for (int r = 0; r < ROWS / 4; r++)
            if (4 * (r * 32 + lane) < n)
                __stcs(reinterpret_cast<float4 *>(x + base) + r * 32 + lane, stage[0][place(r * 32 + lane)]);
        return;
    }
    float *elements = reinterpret_cast<float *>(stage[0]);
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        elements[lane * (ROWS + 1) + r] = d[r];
    __syncwarp();
#pragma unroll
    for (int r = 0; r < ROWS; r++)
        if (r * 32 + lane < n)
            __stcs(x + base + r * 32 + lane, elements[(r * 32 + lane) / ROWS * (ROWS + 1) + (r * 32 + lane) % ROWS]);
}
