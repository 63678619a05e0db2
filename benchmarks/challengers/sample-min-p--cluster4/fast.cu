#include <cooperative_groups.h>
#include <cuda_bf16.h>

#define BLOCKS 4
#define THREADS 512
#define WARPS (THREADS / 32)
#define PIECES 4
#define HELD 4608
#define LOWEST -3.0e38f
#define ALL 0xffffffffu

namespace cg = cooperative_groups;

typedef __nv_bfloat16 bf16;

struct Rule {
    float largest, temperature, least;
};

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// Bulk copies with a barrier each, so that the first piece is summed while the others arrive.
__device__ __forceinline__ void request(uint4 *slice, unsigned long long *ready, const uint4 *__restrict__ from, int count)
{
    const int piece = (count + PIECES - 1) / PIECES;
    for (int p = 0; p < PIECES; p++) {
        const int bytes = max(0, min(piece, count - p * piece)) * 16;
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(ready + p)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(
                         shared_address(ready + p)),
                     "r"(bytes)
                     : "memory");
        if (bytes)
            asm volatile(
                "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                    shared_address(slice + p * piece)),
                "l"(from + p * piece), "r"(bytes), "r"(shared_address(ready + p))
                : "memory");
    }
}

__device__ __forceinline__ void wait_for(unsigned long long *barrier)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(barrier))
                     : "memory");
}

__device__ __forceinline__ float mass_of(float logit, const Rule &rule)
{
    const float power = expf((logit - rule.largest) / rule.temperature);
    return power >= rule.least ? power : 0.0f;
}

// Eight logits from `i` on; what lies past the end counts as far below all others.
__device__ __forceinline__ uint4 load(const bf16 *row, int i, int count, bool whole)
{
    uint4 bits;
    if (whole && i < count)
        return *reinterpret_cast<const uint4 *>(row + i);
#pragma unroll
    for (int j = 0; j < 8; j++)
        reinterpret_cast<bf16 *>(&bits)[j] = i + j < count ? row[i + j] : __float2bfloat16(LOWEST);
    return bits;
}

__device__ __forceinline__ float value_at(const uint4 &bits, int j)
{
    return __bfloat162float(reinterpret_cast<const bf16 *>(&bits)[j]);
}

__device__ __forceinline__ float largest_of(const uint4 &bits)
{
    const __nv_bfloat162 *pairs = reinterpret_cast<const __nv_bfloat162 *>(&bits);
    const float2 both = __bfloat1622float2(__hmax2(__hmax2(pairs[0], pairs[1]), __hmax2(pairs[2], pairs[3])));
    return fmaxf(both.x, both.y);
}

// Few logits reach the bound: most warps see none in their 256 and skip the exponentials.
__device__ __forceinline__ double masses(const uint4 &bits, float bound, const Rule &rule)
{
    double sum = 0.0;
    if (largest_of(bits) < bound)
        return sum;
#pragma unroll
    for (int j = 0; j < 8; j++)
        if (value_at(bits, j) >= bound)
            sum += mass_of(value_at(bits, j), rule);
    return sum;
}

// A cluster a row, a block a quarter of it in shared memory, a warp a stretch of that; the warp whose stretch holds the
// target walks it in steps of 256. Results go to all blocks at once, so that two barriers of the cluster are enough.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    sample(const bf16 *__restrict__ logits, const float *__restrict__ uniform, int *__restrict__ token, int vocab,
           float temperature, float least)
{
    extern __shared__ uint4 slice[];
    __shared__ double sums[BLOCKS * WARPS];
    __shared__ float parts[WARPS], tops[BLOCKS];
    __shared__ unsigned long long ready[PIECES];
    cg::cluster_group cluster = cg::this_cluster();
    const int row = blockIdx.x / BLOCKS, rank = blockIdx.x % BLOCKS, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int share = (vocab + 8 * BLOCKS - 1) / (8 * BLOCKS) * 8, start = min(vocab, rank * share);
    const int count = min(vocab, start + share) - start;
    const bool whole = vocab % 8 == 0, held = whole && share <= 8 * HELD;
    const bf16 *from = logits + static_cast<size_t>(row) * vocab + start;
    if (held && threadIdx.x == 0)
        request(slice, ready, reinterpret_cast<const uint4 *>(from), count / 8);
    cluster.barrier_arrive();
    __syncthreads();
    float largest = LOWEST;
    if (held) {
        const int piece = (count / 8 + PIECES - 1) / PIECES;
        for (int p = 0; p < PIECES; p++) {
            wait_for(ready + p);
#pragma unroll 2
            for (int i = p * piece + threadIdx.x; i < min((p + 1) * piece, count / 8); i += THREADS)
                largest = fmaxf(largest, largest_of(slice[i]));
        }
        from = reinterpret_cast<const bf16 *>(slice);
    } else {
#pragma unroll 4
        for (int i = 8 * threadIdx.x; i < count; i += 8 * THREADS)
            largest = fmaxf(largest, largest_of(load(from, i, count, whole)));
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(ALL, largest, offset));
    if (lane == 0)
        parts[warp] = largest;
    __syncthreads();
    // Nobody writes to a block that has not started.
    cluster.barrier_wait();
    if (threadIdx.x < BLOCKS) {
        largest = parts[0];
#pragma unroll
        for (int other = 1; other < WARPS; other++)
            largest = fmaxf(largest, parts[other]);
        *cluster.map_shared_rank(tops + rank, threadIdx.x) = largest;
    }
    cluster.sync();
    largest = tops[0];
#pragma unroll
    for (int block = 1; block < BLOCKS; block++)
        largest = fmaxf(largest, tops[block]);
    const Rule rule = {largest, temperature, least};
    // A little below the logit that just reaches the least share; the rule itself decides.
    const float bound = rule.largest + temperature * logf(least) - 0.01f * temperature;
    const int each = (count + 256 * WARPS - 1) / (256 * WARPS) * 256;
    const int begin = min(count, warp * each), end = min(count, begin + each);
    double sum = 0.0;
#pragma unroll 2
    for (int i = begin + 8 * lane; i < end; i += 256)
        sum += masses(load(from, i, count, whole), bound, rule);
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(ALL, sum, offset);
    if (lane < BLOCKS)
        *cluster.map_shared_rank(sums + rank * WARPS + warp, lane) = sum;
    cluster.sync();
    double before = 0.0, total = 0.0;
#pragma unroll 8
    for (int i = 0; i < BLOCKS * WARPS; i++) {
        before = i == rank * WARPS + warp ? total : before;
        total += sums[i];
    }
    const double target = uniform[row] * total;
    if (target < before || target >= before + sums[rank * WARPS + warp])
        return;
    for (int first = begin; first < end; first += 256) {
        const uint4 bits = load(from, first + 8 * lane, end, whole);
        const double own = masses(bits, bound, rule);
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
            double reached = before + upto - own;
#pragma unroll
            for (int j = 0; j < 8; j++) {
                reached += value_at(bits, j) >= bound ? mass_of(value_at(bits, j), rule) : 0.0f;
                if (target < reached || j == 7) {
                    token[row] = start + first + 8 * lane + j;
                    break;
                }
            }
        }
        return;
    }
}
