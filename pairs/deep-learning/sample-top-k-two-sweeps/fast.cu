#include <cuda_bf16.h>

#define THREADS 1024
#define WARPS (THREADS / 32)
#define ROOM 4096
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

// Unsigned numbers in the order of the logits; both zeros are the same.
__device__ __forceinline__ unsigned ordered(unsigned bits)
{
    return bits & 0x8000u ? 0x10000u - bits : bits | 0x8000u;
}

__device__ __forceinline__ float value_of(unsigned key)
{
    return __uint_as_float((key & 0x8000u ? key ^ 0x8000u : 0x10000u - key) << 16);
}

// Calls `use(index, key)` for all logits of a row.
template <typename Use> __device__ __forceinline__ void for_all(const bf16 *__restrict__ row, int vocab, const Use &use)
{
    if (vocab % 8 != 0) {
        for (int i = threadIdx.x; i < vocab; i += THREADS)
            use(i, ordered(reinterpret_cast<const unsigned short *>(row)[i]));
        return;
    }
#pragma unroll 4
    for (int i = threadIdx.x; i < vocab / 8; i += THREADS) {
        const uint4 bits = reinterpret_cast<const uint4 *>(row)[i];
        const unsigned word[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            use(8 * i + 2 * j, ordered(word[j] & 0xffffu));
            use(8 * i + 2 * j + 1, ordered(word[j] >> 16));
        }
    }
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
        if (__reduce_add_sync(ALL, parts[bit % 2][threadIdx.x % WARPS]) >= k)
            key = trial;
    }
    __syncthreads();
    return key;
}

struct Candidate {
    unsigned key;
    int place;
};

// A token's place in the running sum is known once the sum over all smaller places is.
__device__ __forceinline__ void pick(const Candidate *__restrict__ found, int count, unsigned kth, float largest,
                                     float by, float uniform, int *__restrict__ token)
{
    double whole = 0.0;
    for (int i = 0; i < count; i++)
        if (found[i].key >= kth)
            whole += expf((value_of(found[i].key) - largest) / by);
    const double target = uniform * whole;
    for (int mine = threadIdx.x; mine < count; mine += THREADS) {
        if (found[mine].key < kth)
            continue;
        double before = 0.0;
        for (int i = 0; i < count; i++)
            if (found[i].key >= kth && found[i].place < found[mine].place)
                before += expf((value_of(found[i].key) - largest) / by);
        if (target >= before && target < before + expf((value_of(found[mine].key) - largest) / by))
            *token = found[mine].place;
    }
}

// With too many ties for the list: every warp sums a stretch of the row, and one of them walks its own.
__device__ __forceinline__ void pick_among_all(const bf16 *__restrict__ row, int vocab, unsigned kth, float largest,
                                               float by, float uniform, int *__restrict__ token)
{
    __shared__ double sums[WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, each = (vocab + WARPS - 1) / WARPS;
    const int begin = min(vocab, warp * each), end = min(vocab, begin + each);
    double sum = 0.0, before = 0.0, whole = 0.0;
    for (int i = begin + lane; i < end; i += 32) {
        const unsigned key = ordered(reinterpret_cast<const unsigned short *>(row)[i]);
        sum += key >= kth ? expf((value_of(key) - largest) / by) : 0.0f;
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
        double upto = i < end && key >= kth ? expf((value_of(key) - largest) / by) : 0.0f;
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

// The k-th largest of the threads' maxima bounds the k-th largest logit from below, so a second sweep collects
// little more than k candidates.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    sample(const bf16 *__restrict__ logits, const float *__restrict__ uniform, int *__restrict__ token, int vocab, int k,
           float temperature)
{
    __shared__ Candidate found[ROOM];
    __shared__ int count;
    const bf16 *row = logits + static_cast<size_t>(blockIdx.x) * vocab;
    unsigned best = 0;
    if (threadIdx.x == 0)
        count = 0;
    for_all(row, vocab, [&](int, unsigned key) { best = max(best, key); });
    const unsigned least = k <= THREADS ? kth_key(k, [&](unsigned trial) { return best >= trial ? 1 : 0; }) : 0;
    const float largest = value_of(kth_key(1, [&](unsigned trial) { return best >= trial ? 1 : 0; }));
    if (best >= least)
        for_all(row, vocab, [&](int place, unsigned key) {
            if (key >= least) {
                const int at = atomicAdd(&count, 1);
                if (at < ROOM)
                    found[at] = {key, place};
            }
        });
    __syncthreads();
    const float by = temperature, chance = uniform[blockIdx.x];
    if (count <= ROOM) {
        const unsigned kth = kth_key(k, [&](unsigned trial) {
            int own = 0;
            for (int i = threadIdx.x; i < count; i += THREADS)
                own += found[i].key >= trial;
            return own;
        });
        pick(found, count, kth, largest, by, chance, token + blockIdx.x);
    } else {
        const unsigned kth = kth_key(k, [&](unsigned trial) {
            int own = 0;
            for_all(row, vocab, [&](int, unsigned key) { own += key >= trial; });
            return own;
        });
        pick_among_all(row, vocab, kth, largest, by, chance, token + blockIdx.x);
    }
}
