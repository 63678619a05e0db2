#define ROWS 8
#define HELD 8
#define ALL 0xffffffffu

// Unsigned numbers in the order of the floats.
__device__ __forceinline__ unsigned ordered(float value)
{
    const unsigned bits = __float_as_uint(value + 0.0f);
    return bits ^ (static_cast<unsigned>(static_cast<int>(bits) >> 31) | 0x80000000u);
}

__device__ __forceinline__ float unordered(unsigned key)
{
    return __uint_as_float(key ^ (key & 0x80000000u ? 0x80000000u : 0xffffffffu));
}

// A warp a token, up to 256 experts in its registers. The softmax over all experts cancels in the renormalised
// weights, so only the chosen ones are exponentiated.
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    route(const float *__restrict__ logits, float *__restrict__ weights, int *__restrict__ ids, int tokens, int experts,
          int choices)
{
    const int token = blockIdx.x * ROWS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (token >= tokens)
        return;
    const float *row = logits + static_cast<size_t>(token) * experts;
    unsigned key[HELD];
#pragma unroll
    for (int u = 0; u < HELD; u++)
        key[u] = lane + 32 * u < experts ? ordered(__ldcs(row + lane + 32 * u)) : 0u;
    unsigned best = 0u;
    int place = 0;
#pragma unroll
    for (int u = 0; u < HELD; u++)
        if (key[u] > best) {
            best = key[u];
            place = u;
        }
    float top = 0.0f, mine = 0.0f, sum = 0.0f;
    int id = 0;
    for (int c = 0; c < choices; c++) {
        const unsigned largest = __reduce_max_sync(ALL, best);
        const int chosen = __reduce_min_sync(ALL, best == largest ? place * 32 + lane : 0x7fffffff);
        const float value = unordered(largest);
        top = c == 0 ? value : top;
        const float power = __expf(value - top);
        sum += power;
        if (lane == c) {
            mine = power;
            id = chosen;
        }
        if (chosen % 32 == lane) {
            best = 0u;
#pragma unroll
            for (int u = HELD - 1; u >= 0; u--) {
                key[u] = u == chosen / 32 ? 0u : key[u];
                if (key[u] >= best) {
                    best = key[u];
                    place = u;
                }
            }
        }
    }
    if (lane < choices) {
        weights[static_cast<size_t>(token) * choices + lane] = __fdividef(mine, sum);
        ids[static_cast<size_t>(token) * choices + lane] = id;
    }
}
