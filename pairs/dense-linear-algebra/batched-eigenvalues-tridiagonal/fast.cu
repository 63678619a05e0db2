// A warp a matrix, a row a lane in registers: Householder's reflections leave three diagonals, on which each lane then
// finds its own eigenvalue by counting how many lie below a guess. A tenth of the operations of Jacobi's rotations.
#define WARPS 4
#define SIDE 32
#define HALVINGS 18
#define FULL 0xffffffffu

__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(FULL, value, offset);
    return value;
}

__device__ __forceinline__ float reciprocal(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Reflects columns away until at most `until` are left, of WIDE at first. Rows move one place to the left with each, so
// that the column in turn is always a[0].
template <int WIDE>
__device__ __forceinline__ void reflect(float (&a)[SIDE], int &k, int n, int until, float4 *mirror, float4 *shift,
                                        int lane, float &diagonal, float &beside)
{
#pragma unroll 1
    for (; n - k > until; k++) {
        if (lane == k)
            diagonal = a[0];
        const float x = lane > k ? a[0] : 0.0f;
        const float square = warp_sum(x * x), first = __shfl_sync(FULL, x, k + 1);
        const float length = -copysignf(sqrtf(square), first);
        const float scale = square > 0.0f ? 1.0f / (square - length * first) : 0.0f;
        const float v = lane == k + 1 ? x - length : x;
        if (lane == k)
            beside = length;
        const int place = (lane - k) & (SIDE - 1);
        reinterpret_cast<float *>(mirror)[place] = v;
        __syncwarp();
        float4 vs[WIDE / 4], sums = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int j = 0; j < WIDE / 4; j++) {
            vs[j] = mirror[j];
            sums.x = fmaf(a[4 * j], vs[j].x, sums.x);
            sums.y = fmaf(a[4 * j + 1], vs[j].y, sums.y);
            sums.z = fmaf(a[4 * j + 2], vs[j].z, sums.z);
            sums.w = fmaf(a[4 * j + 3], vs[j].w, sums.w);
        }
        const float p = lane > k ? scale * ((sums.x + sums.y) + (sums.z + sums.w)) : 0.0f;
        const float w = fmaf(-0.5f * scale * warp_sum(v * p), v, p);
        reinterpret_cast<float *>(shift)[place] = w;
        __syncwarp();
#pragma unroll
        for (int j = 0; j < WIDE / 4; j++) {
            const float4 ws = shift[j];
            if (j > 0)
                a[4 * j - 1] = fmaf(-v, ws.x, fmaf(-w, vs[j].x, a[4 * j]));
            a[4 * j] = fmaf(-v, ws.y, fmaf(-w, vs[j].y, a[4 * j + 1]));
            a[4 * j + 1] = fmaf(-v, ws.z, fmaf(-w, vs[j].z, a[4 * j + 2]));
            a[4 * j + 2] = fmaf(-v, ws.w, fmaf(-w, vs[j].w, a[4 * j + 3]));
        }
        a[WIDE - 1] = 0.0f;
    }
}

// How many eigenvalues lie below x: as many as there are negative pivots.
__device__ __forceinline__ int below(const float4 *pairs, int n, float x)
{
    int count = 0;
    float pivot = 1.0f;
#pragma unroll 4
    for (int i = 0; i < (n + 1) / 2; i++) {
        const float4 two = pairs[i];
        pivot = fmaf(-two.y, reciprocal(pivot), two.x - x);
        count += __float_as_uint(pivot) >> 31;
        pivot = fmaf(-two.w, reciprocal(pivot), two.z - x);
        count += __float_as_uint(pivot) >> 31;
    }
    return count;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    eigenvalues(const float *__restrict__ matrices, float *__restrict__ values, int batch, int n, int sweeps)
{
    __shared__ float4 rows[WARPS][2][SIDE / 4];
    __shared__ float4 diagonals[WARPS][SIDE / 2];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int index = blockIdx.x * WARPS + warp;
    if (index >= batch)
        return;
    const float *matrix = matrices + static_cast<size_t>(index) * n * n;
    float a[SIDE];
#pragma unroll
    for (int i = 0; i < SIDE; i++)
        a[i] = i < n && lane < n ? __ldcs(matrix + i * n + lane) : 0.0f;
    float diagonal = 0.0f, beside = 0.0f;
    int k = 0;
    reflect<32>(a, k, n, 24, rows[warp][0], rows[warp][1], lane, diagonal, beside);
    reflect<24>(a, k, n, 16, rows[warp][0], rows[warp][1], lane, diagonal, beside);
    reflect<16>(a, k, n, 8, rows[warp][0], rows[warp][1], lane, diagonal, beside);
    reflect<8>(a, k, n, 0, rows[warp][0], rows[warp][1], lane, diagonal, beside);

    // Gershgorin's circles bound all eigenvalues. Past the end pivots are huge and positive, so that they count nothing.
    const float left = __shfl_up_sync(FULL, beside, 1), before = lane > 0 ? left : 0.0f;
    const float radius = fabsf(before) + fabsf(beside);
    float low = lane < n ? diagonal - radius : 1e38f, high = lane < n ? diagonal + radius : -1e38f;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        low = fminf(low, __shfl_xor_sync(FULL, low, offset));
        high = fmaxf(high, __shfl_xor_sync(FULL, high, offset));
    }
    reinterpret_cast<float2 *>(diagonals[warp])[lane] =
        lane < n ? make_float2(diagonal, lane > 0 ? fmaxf(before * before, 1e-30f) : 0.0f) : make_float2(1e38f, 0.0f);
    __syncwarp();

    // The first look cuts the range into 33 parts for all lanes at once; then each halves its own.
    const float step = (high - low) / 33.0f;
    const int counted = below(diagonals[warp], n, low + step * (lane + 1));
    int part = 0;
#pragma unroll
    for (int other = 0; other < 32; other++)
        part += __shfl_sync(FULL, counted, other) <= lane;
    low += step * part;
    float half = step;
#pragma unroll 1
    for (int t = 0; t < HALVINGS; t++) {
        half *= 0.5f;
        const float guess = low + half;
        if (below(diagonals[warp], n, guess) <= lane)
            low = guess;
    }
    if (lane < n)
        values[static_cast<size_t>(index) * n + lane] = low + 0.5f * half;
}
