// One sweep over a row: the largest of its first logits bounds the largest of all from below, and thereby what can
// reach the least share, by comparisons of pairs; the few eights that can are listed and read again. Two blocks fit on
// a multiprocessor, so that all rows run at once. Rows that are ragged, or have too many such logits, are swept twice.
#include <cuda_bf16.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define BATCH 8
#define ROOM 4096
#define KEPT 1024
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;
typedef __nv_bfloat162 bf16x2;

struct Rule {
    float largest, temperature, least;
};

__device__ __forceinline__ float mass_of(float logit, const Rule &rule)
{
    const float power = expf((logit - rule.largest) / rule.temperature);
    return power >= rule.least ? power : 0.0f;
}

// Eight logits from `i` on as floats; what lies past the end counts as far below all others.
__device__ __forceinline__ void load(const bf16 *__restrict__ row, int i, int vocab, float (&to)[8])
{
    if (vocab % 8 == 0) {
        const uint4 bits = i < vocab ? *reinterpret_cast<const uint4 *>(row + i) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 pair = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
            to[2 * j] = i < vocab ? pair.x : -3.0e38f;
            to[2 * j + 1] = i < vocab ? pair.y : -3.0e38f;
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < 8; j++)
        to[j] = i + j < vocab ? __bfloat162float(row[i + j]) : -3.0e38f;
}

// Few logits reach the bound: most warps see none in their 256 and skip the exponentials.
__device__ __forceinline__ double masses(const float (&value)[8], float bound, const Rule &rule)
{
    double sum = 0.0;
#pragma unroll
    for (int j = 0; j < 8; j++)
        if (value[j] >= bound)
            sum += mass_of(value[j], rule);
    return sum;
}

__device__ __forceinline__ float block_max(float value)
{
    __shared__ float parts[WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL, value, offset));
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[threadIdx.x % WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL, value, offset));
    __syncthreads();
    return value;
}

// A little below the logit that just reaches the least share of the largest; the rule itself decides.
__device__ __forceinline__ float bound_of(float largest, float temperature, float least)
{
    return largest + temperature * logf(least) - 0.01f * temperature;
}

__device__ __forceinline__ bf16x2 largest_of(const uint4 &bits)
{
    const bf16x2 *pair = reinterpret_cast<const bf16x2 *>(&bits);
    return __hmax2(__hmax2(pair[0], pair[1]), __hmax2(pair[2], pair[3]));
}

struct Token {
    int place;
    float mass;
};

// Lists the eights of a row that have a logit which may count, and gives the largest logit of all.
__device__ __forceinline__ float list_eights(const uint4 *__restrict__ row, int eights, float temperature, float least,
                                             int *listed, int *count)
{
    const bf16x2 lowest = __float2bfloat162_rn(-3.0e38f);
    bf16x2 most = threadIdx.x < eights ? largest_of(row[threadIdx.x]) : lowest;
    const float bound = bound_of(block_max(fmaxf(__low2float(most), __high2float(most))), temperature, least);
    const bf16x2 bounds = __bfloat162bfloat162(__float2bfloat16_rd(bound));
    for (int first = threadIdx.x; first < eights; first += BATCH * THREADS) {
        uint4 bits[BATCH];
#pragma unroll
        for (int e = 0; e < BATCH; e++)
            bits[e] = row[min(first + e * THREADS, eights - 1)];
#pragma unroll
        for (int e = 0; e < BATCH; e++) {
            const bf16x2 largest = largest_of(bits[e]);
            most = __hmax2(most, largest);
            if (__hblt2(largest, bounds) || first + e * THREADS >= eights)
                continue;
            const int at = atomicAdd(count, 1);
            if (at < ROOM)
                listed[at] = first + e * THREADS;
        }
    }
    return block_max(fmaxf(__low2float(most), __high2float(most)));
}

// The last of the tokens that count, by place, before which the masses do not exceed the target; -1 if they are too
// many.
__device__ __forceinline__ int pick(const uint4 *__restrict__ row, const int *listed, int count, float uniform,
                                    const Rule &rule)
{
    __shared__ Token kept[KEPT];
    __shared__ int number, chosen;
    if (threadIdx.x == 0)
        number = chosen = 0;
    __syncthreads();
    const float bound = bound_of(rule.largest, rule.temperature, rule.least);
    for (int l = threadIdx.x; l < count; l += THREADS) {
        const uint4 bits = row[listed[l]];
        const unsigned pair[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const float value = __uint_as_float(j % 2 ? pair[j / 2] & 0xffff0000u : pair[j / 2] << 16);
            const float mass = value >= bound ? mass_of(value, rule) : 0.0f;
            if (mass > 0.0f) {
                const int at = atomicAdd(&number, 1);
                if (at < KEPT)
                    kept[at] = {8 * listed[l] + j, mass};
            }
        }
    }
    __syncthreads();
    if (number > KEPT)
        return -1;
    for (int mine = threadIdx.x; mine < number; mine += THREADS) {
        double before = 0.0, whole = 0.0;
#pragma unroll 4
        for (int i = 0; i < number; i++) {
            const Token other = kept[i];
            before += other.place < kept[mine].place ? other.mass : 0.0f;
            whole += other.mass;
        }
        if (before <= uniform * whole)
            atomicMax(&chosen, kept[mine].place);
    }
    __syncthreads();
    return chosen;
}

// A warp a stretch of the row; the warp whose stretch holds the target walks it in steps of 256.
__device__ __forceinline__ void sweep_twice(const bf16 *__restrict__ row, float uniform, int *__restrict__ token,
                                            int vocab, float temperature, float least)
{
    __shared__ double sums[WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float value[8], largest = -3.0e38f;
#pragma unroll 4
    for (int i = 8 * threadIdx.x; i < vocab; i += 8 * THREADS) {
        load(row, i, vocab, value);
#pragma unroll
        for (int j = 0; j < 8; j++)
            largest = fmaxf(largest, value[j]);
    }
    const Rule rule = {block_max(largest), temperature, least};
    const float bound = bound_of(rule.largest, temperature, least);
    const int each = (vocab + 256 * WARPS - 1) / (256 * WARPS) * 256;
    const int begin = min(vocab, warp * each), end = min(vocab, begin + each);
    double sum = 0.0, before = 0.0, whole = 0.0;
#pragma unroll 2
    for (int i = begin + 8 * lane; i < end; i += 256) {
        load(row, i, vocab, value);
        sum += masses(value, bound, rule);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(ALL, sum, offset);
    if (lane == 0)
        sums[warp] = sum;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) {
        before += i < warp ? sums[i] : 0.0;
        whole += sums[i];
    }
    const double target = uniform * whole;
    if (target < before || target >= before + sums[warp])
        return;
    for (int first = begin; first < end; first += 256) {
        load(row, first + 8 * lane, vocab, value);
        const double own = masses(value, bound, rule);
        double upto = own;
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const double other = __shfl_up_sync(ALL, upto, offset);
            upto += lane >= offset ? other : 0.0;
        }
        const unsigned past = __ballot_sync(ALL, target < before + upto);
        if (past == 0) {
            before += __shfl_sync(ALL, upto, 31);
            continue;
        }
        if (lane == __ffs(past) - 1) {
            double at = before + upto - own;
            for (int j = 0; j < 8; j++) {
                at += value[j] >= bound ? mass_of(value[j], rule) : 0.0f;
                if (target < at || j == 7) {
                    *token = first + 8 * lane + j;
                    break;
                }
            }
        }
        return;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    sample(const bf16 *__restrict__ logits, const float *__restrict__ uniform, int *__restrict__ token, int vocab,
           float temperature, float least)
{
    __shared__ int listed[ROOM], count;
    const bf16 *row = logits + static_cast<size_t>(blockIdx.x) * vocab;
    const float chance = uniform[blockIdx.x];
    if (vocab % 8 == 0) {
        const uint4 *eights = reinterpret_cast<const uint4 *>(row);
        if (threadIdx.x == 0)
            count = 0;
        const float largest = list_eights(eights, vocab / 8, temperature, least, listed, &count);
        const int chosen = count <= ROOM ? pick(eights, listed, count, chance, {largest, temperature, least}) : -1;
        if (chosen >= 0) {
            if (threadIdx.x == 0)
                token[blockIdx.x] = chosen;
            return;
        }
    }
    sweep_twice(row, chance, token + blockIdx.x, vocab, temperature, least);
}
