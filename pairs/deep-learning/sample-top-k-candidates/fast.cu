// One sweep over a row: the k-th largest of the threads' largest logits of its first quarter bounds the k-th largest of
// all from below, and by comparisons of pairs the few eights that reach it are listed and read again. Two blocks fit on
// a multiprocessor, so that all rows run at once and one's barriers hide behind the other's loads.
#include <cuda_bf16.h>

#define THREADS 512
#define WARPS (THREADS / 32)
#define BATCH 8
#define ROOM 4096
#define KEPT 1024
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;
typedef __nv_bfloat162 bf16x2;

// Unsigned numbers in the order of the logits; both zeros are the same.
__device__ __forceinline__ unsigned ordered(unsigned bits)
{
    return bits & 0x8000u ? 0x10000u - bits : bits | 0x8000u;
}

__device__ __forceinline__ float value_of(unsigned key)
{
    return __uint_as_float((key & 0x8000u ? key ^ 0x8000u : 0x10000u - key) << 16);
}

// Calls `use(key)` for all logits of a row.
template <typename Use> __device__ __forceinline__ void for_all(const bf16 *__restrict__ row, int vocab, const Use &use)
{
    for (int i = threadIdx.x; i < vocab; i += THREADS)
        use(ordered(reinterpret_cast<const unsigned short *>(row)[i]));
}

// The k-th largest of the block's keys, 16 bits from the top down; `count(key)`: a thread's keys that are no smaller.
template <typename Count> __device__ __forceinline__ unsigned kth_key(int k, const Count &count)
{
    __shared__ int parts[2][WARPS];
    unsigned key = 0;
    for (int bit = 15; bit >= 0; bit--) {
        const unsigned trial = key | 1u << bit;
        const int own = __reduce_add_sync(ALL, count(trial));
        if (threadIdx.x % 32 == 0)
            parts[bit % 2][threadIdx.x / 32] = own;
        __syncthreads();
        if (__reduce_add_sync(ALL, threadIdx.x % 32 < WARPS ? parts[bit % 2][threadIdx.x % 32] : 0) >= k)
            key = trial;
    }
    __syncthreads();
    return key;
}

__device__ __forceinline__ unsigned block_max(unsigned value)
{
    __shared__ unsigned parts[WARPS];
    value = __reduce_max_sync(ALL, value);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    return __reduce_max_sync(ALL, parts[threadIdx.x % WARPS]);
}

__device__ __forceinline__ float mass_of(unsigned key, float largest, float by)
{
    return expf((value_of(key) - largest) / by);
}

__device__ __forceinline__ bf16x2 largest_of(const uint4 &bits)
{
    const bf16x2 *pair = reinterpret_cast<const bf16x2 *>(&bits);
    return __hmax2(__hmax2(pair[0], pair[1]), __hmax2(pair[2], pair[3]));
}

// BATCH eights of a row from `first` on, THREADS apart; infinitely small logits behind its end.
__device__ __forceinline__ void load(const uint4 *__restrict__ row, int first, int eights, uint4 (&bits)[BATCH])
{
#pragma unroll
    for (int e = 0; e < BATCH; e++)
        bits[e] = first + e * THREADS < eights ? row[first + e * THREADS]
                                               : make_uint4(0xff80ff80u, 0xff80ff80u, 0xff80ff80u, 0xff80ff80u);
}

// Lists the eights that may hold one of the k largest logits; gives a key that those are not smaller than.
__device__ __forceinline__ unsigned list_eights(const uint4 *__restrict__ row, int eights, int k, int *listed,
                                                int *count)
{
    uint4 bits[BATCH];
    load(row, threadIdx.x, eights, bits);
    bf16x2 most = largest_of(bits[0]);
#pragma unroll
    for (int e = 1; e < BATCH; e++)
        most = __hmax2(most, largest_of(bits[e]));
    const unsigned best = ordered(__float_as_uint(fmaxf(__low2float(most), __high2float(most))) >> 16);
    const unsigned least = kth_key(k, [&](unsigned trial) { return best >= trial ? 1 : 0; });
    const bf16x2 bounds = __float2bfloat162_rn(value_of(least));
    for (int first = threadIdx.x; first < eights; first += BATCH * THREADS) {
        if (first >= BATCH * THREADS)
            load(row, first, eights, bits);
#pragma unroll
        for (int e = 0; e < BATCH; e++) {
            if (__hblt2(largest_of(bits[e]), bounds) || first + e * THREADS >= eights)
                continue;
            const int at = atomicAdd(count, 1);
            if (at < ROOM)
                listed[at] = first + e * THREADS;
        }
    }
    __syncthreads();
    return least;
}

struct Token {
    unsigned key;
    int place;
};

// Of the listed eights, the last token by place before which the masses of the k largest do not exceed the target; -1
// if too many could be among them.
__device__ __forceinline__ int pick(const uint4 *__restrict__ row, const int *listed, int count, unsigned least, int k,
                                    float by, float uniform)
{
    __shared__ Token found[KEPT], kept[KEPT];
    __shared__ int number, chosen, used;
    if (threadIdx.x == 0)
        number = chosen = used = 0;
    __syncthreads();
    unsigned best = 0;
    for (int l = threadIdx.x; l < count; l += THREADS) {
        const uint4 bits = row[listed[l]];
        const unsigned pair[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const unsigned key = ordered(j % 2 ? pair[j / 2] >> 16 : pair[j / 2] & 0xffffu);
            best = max(best, key);
            if (key >= least) {
                const int at = atomicAdd(&number, 1);
                if (at < KEPT)
                    found[at] = {key, 8 * listed[l] + j};
            }
        }
    }
    const float largest = value_of(block_max(best));
    if (number > KEPT)
        return -1;
    const unsigned kth = kth_key(k, [&](unsigned trial) {
        int own = 0;
        for (int i = threadIdx.x; i < number; i += THREADS)
            own += found[i].key >= trial;
        return own;
    });
    // From here on a token's mass in place of its key.
    for (int i = threadIdx.x; i < number; i += THREADS)
        if (found[i].key >= kth)
            kept[atomicAdd(&used, 1)] = {__float_as_uint(mass_of(found[i].key, largest, by)), found[i].place};
    __syncthreads();
    for (int mine = threadIdx.x; mine < used; mine += THREADS) {
        double before = 0.0, whole = 0.0;
#pragma unroll 4
        for (int i = 0; i < used; i++) {
            const Token other = kept[i];
            before += other.place < kept[mine].place ? __uint_as_float(other.key) : 0.0f;
            whole += __uint_as_float(other.key);
        }
        if (before <= uniform * whole)
            atomicMax(&chosen, kept[mine].place);
    }
    __syncthreads();
    return chosen;
}

// Without a list: every warp sums a stretch of the row, and one of them walks its own.
__device__ __forceinline__ void pick_among_all(const bf16 *__restrict__ row, int vocab, unsigned kth, float largest,
                                               float by, float uniform, int *__restrict__ token)
{
    __shared__ double sums[WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, each = (vocab + WARPS - 1) / WARPS;
    const int begin = min(vocab, warp * each), end = min(vocab, begin + each);
    double sum = 0.0, before = 0.0, whole = 0.0;
    for (int i = begin + lane; i < end; i += 32) {
        const unsigned key = ordered(reinterpret_cast<const unsigned short *>(row)[i]);
        sum += key >= kth ? mass_of(key, largest, by) : 0.0f;
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
    for (int first = begin; first < end; first += 32) {
        const int i = first + lane;
        const unsigned key = i < end ? ordered(reinterpret_cast<const unsigned short *>(row)[i]) : 0;
        double upto = i < end && key >= kth ? mass_of(key, largest, by) : 0.0f;
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const double other = __shfl_up_sync(ALL, upto, offset);
            upto += lane >= offset ? other : 0.0;
        }
        const unsigned past = __ballot_sync(ALL, target < before + upto);
        if (past != 0) {
            if (lane == 0)
                *token = first + __ffs(past) - 1;
            return;
        }
        before += __shfl_sync(ALL, upto, 31);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    sample(const bf16 *__restrict__ logits, const float *__restrict__ uniform, int *__restrict__ token, int vocab, int k,
           float temperature)
{
    __shared__ int listed[ROOM], count;
    const bf16 *row = logits + static_cast<size_t>(blockIdx.x) * vocab;
    const float chance = uniform[blockIdx.x];
    if (vocab % 8 == 0 && k <= THREADS) {
        const uint4 *eights = reinterpret_cast<const uint4 *>(row);
        if (threadIdx.x == 0)
            count = 0;
        const unsigned least = list_eights(eights, vocab / 8, k, listed, &count);
        const int chosen = count <= ROOM ? pick(eights, listed, count, least, k, temperature, chance) : -1;
        if (chosen >= 0) {
            if (threadIdx.x == 0)
                token[blockIdx.x] = chosen;
            return;
        }
    }
    unsigned best = 0;
    for_all(row, vocab, [&](unsigned key) { best = max(best, key); });
    const float largest = value_of(block_max(best));
    const unsigned kth = kth_key(k, [&](unsigned trial) {
        int own = 0;
        for_all(row, vocab, [&](unsigned key) { own += key >= trial; });
        return own;
    });
    pick_among_all(row, vocab, kth, largest, temperature, chance, token + blockIdx.x);
}
