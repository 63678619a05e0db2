#define EXPERTS 256
#define GROUPS 8
#define KEPT 4
#define CHOICES 8
#define ROWS 8
#define OWN (EXPERTS / 32)
#define LOWEST __int_as_float(0xff800000)
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

// The eight best, one after the other; for rows in which so many are equal that candidates do not fit into a warp.
__device__ __forceinline__ void choose(float (&key)[OWN], const float (&score)[OWN], int lane, float &share, int &id,
                                       int &rank)
{
#pragma unroll 1
    for (int c = 0; c < CHOICES; c++) {
        float best = key[0], chosen = score[0];
        int at = 0;
#pragma unroll
        for (int j = 1; j < OWN; j++)
            if (key[j] > best) {
                best = key[j];
                chosen = score[j];
                at = j;
            }
        const unsigned mine = ordered(best), largest = __reduce_max_sync(ALL, mine);
        const int owner = __ffs(__ballot_sync(ALL, mine == largest)) - 1;
        const float its_share = __shfl_sync(ALL, chosen, owner);
        const int its_id = owner * OWN + __shfl_sync(ALL, at, owner);
        if (lane == c) {
            share = its_share;
            id = its_id;
            rank = c;
        }
#pragma unroll
        for (int j = 0; j < OWN; j++)
            key[j] = lane == owner && j == at ? LOWEST : key[j];
    }
}

// A warp a token, a lane eight neighbouring experts, four lanes a group. The eighth largest of the lanes' best bounds the
// eight chosen from below: the few experts above it move together, one a lane, and each counts those before it.
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    route(const float *__restrict__ logits, const float *__restrict__ bias, float *__restrict__ weights,
          int *__restrict__ ids, int tokens, float scale)
{
    __shared__ unsigned long long candidates[ROWS][32];
    __shared__ float shares[ROWS][32];
    const int warp = threadIdx.x / 32, token = blockIdx.x * ROWS + warp, lane = threadIdx.x % 32;
    if (token >= tokens)
        return;
    const float4 *row = reinterpret_cast<const float4 *>(logits + static_cast<size_t>(token) * EXPERTS) + 2 * lane;
    const float4 *extra = reinterpret_cast<const float4 *>(bias) + 2 * lane;
    const float4 a = __ldcs(row), b = __ldcs(row + 1), more_a = extra[0], more_b = extra[1];
    float score[OWN] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    float key[OWN] = {more_a.x, more_a.y, more_a.z, more_a.w, more_b.x, more_b.y, more_b.z, more_b.w};
    float first = LOWEST, second = LOWEST;
#pragma unroll
    for (int j = 0; j < OWN; j++) {
        score[j] = 1.0f / (1.0f + expf(-score[j]));
        key[j] = score[j] + key[j];
        second = fmaxf(second, fminf(first, key[j]));
        first = fmaxf(first, key[j]);
    }
    const float best = first;
#pragma unroll
    for (int offset = 1; offset < 4; offset *= 2) {
        const float other_first = __shfl_xor_sync(ALL, first, offset);
        const float other_second = __shfl_xor_sync(ALL, second, offset);
        second = fmaxf(fminf(first, other_first), fmaxf(second, other_second));
        first = fmaxf(first, other_first);
    }
    const float whole = first + second;
    const int group = lane / (32 / GROUPS);
    int better = 0;
#pragma unroll
    for (int d = 1; d < GROUPS; d++) {
        const float other = __shfl_sync(ALL, whole, lane + d * (32 / GROUPS));
        better += other > whole || (other == whole && (group + d) % GROUPS < group);
    }
    const bool kept = better < KEPT;
    unsigned rest = kept ? ordered(best) : 0u, bound = 0u;
#pragma unroll
    for (int c = 0; c < CHOICES; c++) {
        bound = __reduce_max_sync(ALL, rest);
        rest = rest == bound ? 0u : rest;
    }
    const float least = bound ? unordered(bound) : LOWEST;
    int place = 0, count = 0;
    unsigned above[OWN];
#pragma unroll
    for (int j = 0; j < OWN; j++) {
        above[j] = __ballot_sync(ALL, kept && key[j] >= least);
        count += __popc(above[j]);
    }
    float share = 0.0f;
    int id = 0, rank = CHOICES;
    if (count <= 32) {
#pragma unroll
        for (int j = 0; j < OWN; j++) {
            if (above[j] >> lane & 1) {
                const int at = place + __popc(above[j] & ((1u << lane) - 1));
                candidates[warp][at] = static_cast<unsigned long long>(ordered(key[j])) << 32 | (ALL - (lane * OWN + j));
                shares[warp][at] = score[j];
            }
            place += __popc(above[j]);
        }
        __syncwarp();
        if (lane < count) {
            const unsigned long long own = candidates[warp][lane];
            rank = 0;
            for (int i = 0; i < count; i++)
                rank += candidates[warp][i] > own;
            id = static_cast<int>(ALL - static_cast<unsigned>(own));
            share = rank < CHOICES ? shares[warp][lane] : 0.0f;
        }
    } else {
#pragma unroll
        for (int j = 0; j < OWN; j++)
            key[j] = kept ? key[j] : LOWEST;
        choose(key, score, lane, share, id, rank);
    }
    float sum = share;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(ALL, sum, offset);
    if (rank < CHOICES) {
        weights[static_cast<size_t>(token) * CHOICES + rank] = share / sum * scale;
        ids[static_cast<size_t>(token) * CHOICES + rank] = id;
    }
}
