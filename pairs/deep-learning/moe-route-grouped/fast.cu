#define EXPERTS 256
#define GROUPS 8
#define KEPT 4
#define CHOICES 8
#define ROWS 8
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

// The two largest keys of a warp's lanes, as the sum of their floats.
__device__ __forceinline__ float top_two(unsigned key, int lane)
{
    const unsigned first = __reduce_max_sync(ALL, key);
    const int owner = __ffs(__ballot_sync(ALL, key == first)) - 1;
    const unsigned second = __reduce_max_sync(ALL, lane == owner ? 0u : key);
    return unordered(first) + unordered(second);
}

// A warp a token, a lane one expert of each group.
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    route(const float *__restrict__ logits, const float *__restrict__ bias, float *__restrict__ weights,
          int *__restrict__ ids, int tokens, float scale)
{
    const int token = blockIdx.x * ROWS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (token >= tokens)
        return;
    const float *row = logits + static_cast<size_t>(token) * EXPERTS;
    float score[GROUPS], group_score[GROUPS];
    unsigned key[GROUPS];
#pragma unroll
    for (int g = 0; g < GROUPS; g++)
        score[g] = __ldcs(row + 32 * g + lane);
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        score[g] = 1.0f / (1.0f + expf(-score[g]));
        key[g] = ordered(score[g] + bias[32 * g + lane]);
        group_score[g] = top_two(key[g], lane);
    }
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
        int better = 0;
#pragma unroll
        for (int other = 0; other < GROUPS; other++)
            better += group_score[other] > group_score[g] || (group_score[other] == group_score[g] && other < g);
        key[g] = better < KEPT ? key[g] : 0u;
    }
    float mine = 0.0f, sum = 0.0f;
    int id = 0;
#pragma unroll
    for (int c = 0; c < CHOICES; c++) {
        unsigned best = key[0];
        int group = 0;
#pragma unroll
        for (int g = 1; g < GROUPS; g++)
            if (key[g] > best) {
                best = key[g];
                group = g;
            }
        const unsigned largest = __reduce_max_sync(ALL, best);
        const int chosen = __reduce_min_sync(ALL, best == largest ? group * 32 + lane : EXPERTS);
        float share = score[0];
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
            share = g == chosen / 32 ? score[g] : share;
            key[g] = g == chosen / 32 && lane == chosen % 32 ? 0u : key[g];
        }
        share = __shfl_sync(ALL, share, chosen % 32);
        sum += share;
        if (lane == c) {
            mine = share;
            id = chosen;
        }
    }
    if (lane < CHOICES) {
        weights[static_cast<size_t>(token) * CHOICES + lane] = mine / sum * scale;
        ids[static_cast<size_t>(token) * CHOICES + lane] = id;
    }
}
