#include <cooperative_groups.h>
#include <cuda_bf16.h>

namespace cg = cooperative_groups;

#define BLOCKS 2
#define THREADS 1024
#define WARPS (THREADS / 32)
#define HELD 8
#define SLOTS 13
#define AHEAD 4
#define LOWEST -1.0e38f
#define LOG2E 1.4426950408889634f
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;
typedef unsigned long long word;

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

__device__ __forceinline__ void prepare(word *ready)
{
    for (int slot = 0; slot < SLOTS; slot++)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(ready + slot)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A bulk copy that its barrier counts.
__device__ __forceinline__ void bring(uint4 *slot, const bf16 *__restrict__ from, int bytes, word *ready)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(
                     shared_address(ready)),
                 "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(slot)),
                 "l"(from), "r"(bytes), "r"(shared_address(ready))
                 : "memory");
}

// Piece `piece` of the rows that this block will read, in its place in the ring.
__device__ __forceinline__ void request(uint4 *ring, word *ready, const bf16 *__restrict__ mine, size_t stride,
                                        int piece, int pieces, int turns, int groups)
{
    const int turn = piece / pieces, at = piece % pieces * THREADS, slot = piece % SLOTS;
    if (turn < turns)
        bring(ring + slot * THREADS, mine + turn * stride + 8 * at, 16 * min(THREADS, groups - at), ready + slot);
}

__device__ __forceinline__ void wait_for(word *barrier, unsigned parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
}

struct Running {
    float largest, sum;
};

__device__ __forceinline__ float power_of_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    const unsigned pair = reinterpret_cast<const unsigned *>(&bits)[j];
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
}

// The maximum is found on packed pairs and the sum changes its scale once for all COUNT pieces.
template <int COUNT> __device__ __forceinline__ void take(Running &mine, const uint4 (&bits)[COUNT])
{
    __nv_bfloat162 top = reinterpret_cast<const __nv_bfloat162 *>(&bits[0])[0];
#pragma unroll
    for (int u = 0; u < COUNT; u++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            top = __hmax2(top, reinterpret_cast<const __nv_bfloat162 *>(&bits[u])[j]);
    const float both = fmaxf(mine.largest, fmaxf(__low2float(top), __high2float(top)));
    float sum = mine.sum * power_of_2((mine.largest - both) * LOG2E);
    const float shift = -both * LOG2E;
#pragma unroll
    for (int u = 0; u < COUNT; u++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 x = at(bits[u], j);
            sum += power_of_2(fmaf(x.x, LOG2E, shift)) + power_of_2(fmaf(x.y, LOG2E, shift));
        }
    mine = {both, sum};
}

// The largest of WIDTH lanes, then the sum: one change of scale a lane.
template <int WIDTH> __device__ __forceinline__ Running lanes_merge(Running mine)
{
    float both = mine.largest;
#pragma unroll
    for (int offset = WIDTH / 2; offset > 0; offset /= 2)
        both = fmaxf(both, __shfl_xor_sync(ALL, both, offset));
    float sum = mine.sum * power_of_2((mine.largest - both) * LOG2E);
#pragma unroll
    for (int offset = WIDTH / 2; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(ALL, sum, offset);
    return {both, sum};
}

// Each warp writes its result to all blocks of the cluster, so that one barrier is enough and nobody is read from late.
__device__ __forceinline__ Running cluster_merge(Running mine, Running *parts)
{
    cg::cluster_group cluster = cg::this_cluster();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    mine = lanes_merge<32>(mine);
    if (lane < BLOCKS)
        cluster.map_shared_rank(parts, lane)[cluster.block_rank() * WARPS + warp] = mine;
    cluster.sync();
    mine = parts[lane];
#pragma unroll
    for (int part = 32; part < BLOCKS * WARPS; part += 32) {
        const Running other = parts[part + lane];
        const float both = fmaxf(mine.largest, other.largest);
        mine = {both, mine.sum * power_of_2((mine.largest - both) * LOG2E) +
                          other.sum * power_of_2((other.largest - both) * LOG2E)};
    }
    return lanes_merge<32>(mine);
}

__device__ __forceinline__ uint4 shifted(const uint4 &bits, float shift)
{
    uint4 result;
#pragma unroll
    for (int j = 0; j < 4; j++)
        reinterpret_cast<__nv_bfloat162 *>(&result)[j] =
            __floats2bfloat162_rn(at(bits, j).x - shift, at(bits, j).y - shift);
    return result;
}

// Minus infinity, whose powers are zero.
__device__ __forceinline__ uint4 none()
{
    return make_uint4(0xff80ff80u, 0xff80ff80u, 0xff80ff80u, 0xff80ff80u);
}

// Resident clusters, each with every so many rows. A row is in registers from its reduction to its output, so that the
// ring fills with the next rows meanwhile.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    log_softmax(const bf16 *__restrict__ in, bf16 *__restrict__ out, int rows, int cols)
{
    extern __shared__ uint4 ring[];
    __shared__ Running parts[2][BLOCKS * WARPS];
    __shared__ word ready[SLOTS];
    const int clusters = gridDim.x / BLOCKS, start = blockIdx.x / BLOCKS, rank = blockIdx.x % BLOCKS;
    const int turns = (rows - start + clusters - 1) / clusters, share = (cols / 8 + BLOCKS - 1) / BLOCKS;
    const bool whole = cols % 8 == 0, held = whole && share <= HELD * THREADS;
    const int begin = min(cols / 8, rank * share), groups = min(cols / 8, begin + share) - begin;
    const int pieces = held ? (groups + THREADS - 1) / THREADS : 0;
    const size_t stride = static_cast<size_t>(clusters) * cols, first = static_cast<size_t>(start) * cols;
    const bf16 *row = in + first;
    bf16 *to = out + first;
    const bf16 *const origin = row + 8 * begin;
    if (threadIdx.x == 0)
        prepare(ready);
    __syncthreads();
    if (threadIdx.x < min(SLOTS, turns * pieces))
        request(ring, ready, origin, stride, threadIdx.x, pieces, turns, groups);
    unsigned slot = 0, parity = 0;
    // Nobody writes to a block that has not started.
    cg::this_cluster().sync();
    for (int turn = 0; turn < turns; turn++) {
        const uint4 *eights = reinterpret_cast<const uint4 *>(row) + begin;
        Running mine = {LOWEST, 0.0f};
        uint4 own[HELD];
        if (held) {
#pragma unroll
            for (int u = 0; u < HELD; u++) {
                own[u] = none();
                if (u < pieces) {
                    if (threadIdx.x + u * THREADS < groups) {
                        wait_for(ready + slot, parity);
                        own[u] = ring[slot * THREADS + threadIdx.x];
                    }
                    if (++slot == SLOTS) {
                        slot = 0;
                        parity ^= 1;
                    }
                }
            }
            take(mine, own);
        } else if (whole) {
            for (int i = threadIdx.x; i < groups; i += AHEAD * THREADS) {
                uint4 some[AHEAD];
#pragma unroll
                for (int u = 0; u < AHEAD; u++)
                    some[u] = i + u * THREADS < groups ? eights[i + u * THREADS] : none();
                take(mine, some);
            }
        } else {
            for (int i = rank * THREADS + threadIdx.x; i < cols; i += BLOCKS * THREADS) {
                const float x = __bfloat162float(row[i]), both = fmaxf(mine.largest, x);
                mine.sum = mine.sum * power_of_2((mine.largest - both) * LOG2E) + power_of_2((x - both) * LOG2E);
                mine.largest = both;
            }
        }
        mine = cluster_merge(mine, parts[turn % 2]);
        // All warps have read the row from the ring by now.
        if (threadIdx.x < pieces)
            request(ring, ready, origin, stride, turn * pieces + SLOTS + threadIdx.x, pieces, turns, groups);
        const float shift = mine.largest + logf(mine.sum);
        uint4 *results = reinterpret_cast<uint4 *>(to) + begin;
        if (held) {
#pragma unroll
            for (int u = 0; u < HELD; u++) {
                const int i = threadIdx.x + u * THREADS;
                if (i < groups)
                    __stcs(results + i, shifted(own[u], shift));
            }
        } else if (whole) {
            for (int i = threadIdx.x; i < groups; i += THREADS)
                __stcs(results + i, shifted(eights[i], shift));
        } else {
            for (int i = rank * THREADS + threadIdx.x; i < cols; i += BLOCKS * THREADS)
                to[i] = __float2bfloat16(__bfloat162float(row[i]) - shift);
        }
        row += stride;
        to += stride;
    }
}
