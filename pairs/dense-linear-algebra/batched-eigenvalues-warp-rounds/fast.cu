#define WARPS 4
#define SIDE 32
#define STRIDE 33
#define FULL 0xffffffffu

// Pairs of a round robin: all rotations of a round touch different rows and columns.
__device__ __forceinline__ int player(int round, int seat, int players)
{
    return seat == 0 ? 0 : 1 + (seat - 1 + round) % (players - 1);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    eigenvalues(const float *__restrict__ matrices, float *__restrict__ values, int batch, int n, int sweeps)
{
    __shared__ float all[WARPS][SIDE * STRIDE];
    __shared__ float4 turns[WARPS][SIDE / 2];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int index = blockIdx.x * WARPS + warp;
    if (index >= batch)
        return;
    float *a = all[warp];
    float4 *turn = turns[warp];
    for (int i = 0; i < n; i++)
        if (lane < n)
            a[i * STRIDE + lane] = __ldcs(matrices + (static_cast<size_t>(index) * n + i) * n + lane);
    __syncwarp();
    const int players = n + n % 2, rounds = players - 1;
#pragma unroll 1
    for (int round = 0; round < sweeps * rounds; round++) {
        if (lane < players / 2) {
            const int one = player(round % rounds, lane, players);
            const int two = player(round % rounds, players - 1 - lane, players);
            const int p = min(one, two), q = max(one, two);
            float c = 1.0f, s = 0.0f;
            const float off = q < n ? a[p * STRIDE + q] : 0.0f;
            if (off != 0.0f) {
                const float theta = (a[q * STRIDE + q] - a[p * STRIDE + p]) / (2.0f * off);
                const float t = copysignf(1.0f / (fabsf(theta) + sqrtf(theta * theta + 1.0f)), theta);
                c = rsqrtf(t * t + 1.0f);
                s = t * c;
            }
            turn[lane] = make_float4(c, s, __int_as_float(p), __int_as_float(q));
        }
        __syncwarp();
        if (lane < n) {
#pragma unroll 4
            for (int k = 0; k < players / 2; k++) {
                const float4 now = turn[k];
                const int p = __float_as_int(now.z) * STRIDE + lane, q = __float_as_int(now.w) * STRIDE + lane;
                if (__float_as_int(now.w) < n) {
                    const float x = a[p], y = a[q];
                    a[p] = now.x * x - now.y * y;
                    a[q] = now.y * x + now.x * y;
                }
            }
        }
        __syncwarp();
        if (lane < n) {
#pragma unroll 4
            for (int k = 0; k < players / 2; k++) {
                const float4 now = turn[k];
                const int p = __float_as_int(now.z) + lane * STRIDE, q = __float_as_int(now.w) + lane * STRIDE;
                if (__float_as_int(now.w) < n) {
                    const float x = a[p], y = a[q];
                    a[p] = now.x * x - now.y * y;
                    a[q] = now.y * x + now.x * y;
                }
            }
        }
        __syncwarp();
    }
    const float own = lane < n ? a[lane * STRIDE + lane] : 0.0f;
    int place = 0;
    for (int k = 0; k < n; k++) {
        const float other = __shfl_sync(FULL, own, k);
        place += other < own || (other == own && k < lane);
    }
    if (lane < n)
        values[static_cast<size_t>(index) * n + place] = own;
}
