// One cooperative launch that flows through the rows: a block copies a stretch of a row to its ring in shared memory,
// posts its largest value and sum of powers and, two rounds later, when all blocks have posted theirs, shifts it from the
// ring. So memory is read once and written once, with copies ahead and stores under way all the time.
#include <cuda_bf16.h>

#define THREADS 256
#define WARPS (THREADS / 32)
#define EIGHTS 4
#define UNIT (THREADS * EIGHTS * 8)
#define SLOTS 7
#define AHEAD 3
#define LOWEST -1.0e30f
#define LOWEST_PAIR 0xff7fff7fu
#define LOG2E 1.44269504f
#define ALL 0xffffffffu

typedef unsigned long long word;
typedef __nv_bfloat16 bf16;

// The largest of some values and the sum of their powers relative to it.
struct Running {
    float largest, sum;
};

// Where a block is: at a stretch (segment) of a row.
struct Place {
    int row, segment;
};

__device__ __forceinline__ void advance(Place &at, const Place &step, int segments)
{
    at.segment += step.segment;
    at.row += step.row;
    if (at.segment >= segments) {
        at.segment -= segments;
        at.row++;
    }
}

__device__ __forceinline__ size_t first_of(const Place &at, int cols)
{
    return static_cast<size_t>(at.row) * cols + at.segment * UNIT;
}

__device__ __forceinline__ int length_of(int segment, int cols) { return min(UNIT, cols - segment * UNIT); }

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ __nv_bfloat162 larger(const uint4 &bits, __nv_bfloat162 largest)
{
#pragma unroll
    for (int j = 0; j < 4; j++)
        largest = __hmax2(largest, reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
    return largest;
}

__device__ __forceinline__ float power(float exponent)
{
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
    return result;
}

__device__ __forceinline__ float warp_largest(float value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_xor_sync(ALL, value, offset));
    return value;
}

__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    return value;
}

__device__ __forceinline__ Running warp_merge(const Running &mine)
{
    const float largest = warp_largest(mine.largest);
    return {largest, warp_sum(mine.sum * power((mine.largest - largest) * LOG2E))};
}

// What a warp has in the ring, in its lanes' own places.
__device__ __forceinline__ Running own_part(const uint4 *slot, int eights)
{
    uint4 own[EIGHTS];
    __nv_bfloat162 pair;
    reinterpret_cast<unsigned &>(pair) = LOWEST_PAIR;
#pragma unroll
    for (int q = 0; q < EIGHTS; q++) {
        const int eight = q * THREADS + threadIdx.x;
        own[q] = eight < eights ? slot[eight] : make_uint4(LOWEST_PAIR, LOWEST_PAIR, LOWEST_PAIR, LOWEST_PAIR);
        pair = larger(own[q], pair);
    }
    const float largest = warp_largest(fmaxf(LOWEST, fmaxf(__low2float(pair), __high2float(pair))));
    const float below = -largest * LOG2E;
    float sums[2] = {};
#pragma unroll
    for (int q = 0; q < EIGHTS; q++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            sums[0] += power(fmaf(at(own[q], j).x, LOG2E, below));
            sums[1] += power(fmaf(at(own[q], j).y, LOG2E, below));
        }
    return {largest, warp_sum(sums[0] + sums[1])};
}

// The same by single elements from memory, for rows that do not begin at 16 bytes.
__device__ __forceinline__ Running element_part(const bf16 *__restrict__ from, int length)
{
    float largest = LOWEST, sum = 0.0f;
    for (int i = threadIdx.x; i < length; i += THREADS)
        largest = fmaxf(largest, __bfloat162float(from[i]));
    largest = warp_largest(largest);
    for (int i = threadIdx.x; i < length; i += THREADS)
        sum += power((__bfloat162float(from[i]) - largest) * LOG2E);
    return {largest, warp_sum(sum)};
}

// A thread copies what it will read itself, so that the ring needs no barriers.
__device__ __forceinline__ void copy_ahead(uint4 *slot, const bf16 *__restrict__ from, int eights)
{
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(slot));
#pragma unroll
    for (int q = 0; q < EIGHTS; q++) {
        const int eight = q * THREADS + threadIdx.x;
        if (eight < eights)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 16 * eight), "l"(from + 8 * eight)
                         : "memory");
    }
}

// Posted inverted, for a word of zeros means that nothing has come yet.
__device__ __forceinline__ void post(word *to, const Running &part)
{
    const word bits = static_cast<word>(__float_as_uint(part.largest)) << 32 | __float_as_uint(part.sum);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(max(~bits, 1ull)) : "memory");
}

__device__ __forceinline__ Running await(const word *from)
{
    word bits;
    do {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(from) : "memory");
    } while (bits == 0);
    return {__uint_as_float(static_cast<unsigned>(~bits >> 32)), __uint_as_float(static_cast<unsigned>(~bits))};
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

// In round i block b has unit i * gridDim.x + b; the units of a row follow one another, so they are in at most
// `span` + 1 rounds. A block waits only for what others post in rounds before its own.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    log_softmax(const bf16 *__restrict__ in, bf16 *__restrict__ out, word *posted, int rows, int cols)
{
    extern __shared__ uint4 ring[];
    __shared__ Running unit_warps[2][WARPS], row_warps[2][WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, blocks = gridDim.x;
    const int segments = (cols + UNIT - 1) / UNIT, units = segments * rows;
    const int rounds = (units - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
    const int span = (segments + blocks - 2) / blocks, lag = max(2, span + 1);
    const bool aligned = cols % 8 == 0, held = lag + AHEAD < SLOTS;
    const Place step = {blocks / segments, blocks % segments};
    Place next = {static_cast<int>(blockIdx.x) / segments, static_cast<int>(blockIdx.x) % segments};
    Place own = next, ready = next;
    for (int i = -AHEAD; i < rounds + lag; i++) {
        if (aligned && i + AHEAD < rounds)
            copy_ahead(ring + (i + AHEAD) % SLOTS * (UNIT / 8), in + first_of(next, cols), length_of(next.segment, cols) / 8);
        asm volatile("cp.async.commit_group;" ::: "memory");
        advance(next, step, segments);
        if (i < 0)
            continue;
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD) : "memory");
        if (i < rounds) {
            const int length = length_of(own.segment, cols);
            const Running mine = aligned ? own_part(ring + i % SLOTS * (UNIT / 8), length / 8)
                                         : element_part(in + first_of(own, cols), length);
            if (lane == 0)
                unit_warps[i % 2][warp] = mine;
            advance(own, step, segments);
        }
        if (i >= lag) {
            Running mine = {LOWEST, 0.0f};
            for (int part = threadIdx.x; part < segments; part += THREADS) {
                const Running one = await(posted + static_cast<size_t>(ready.row) * segments + part);
                const float both = fmaxf(mine.largest, one.largest);
                mine = {both, mine.sum * power((mine.largest - both) * LOG2E) +
                                  one.sum * power((one.largest - both) * LOG2E)};
            }
            if (32 * warp < segments)
                mine = warp_merge(mine);
            if (lane == 0)
                row_warps[i % 2][warp] = mine;
        }
        __syncthreads();
        if (i < rounds && warp == WARPS - 1) {
            const Running mine = warp_merge(lane < WARPS ? unit_warps[i % 2][lane] : Running{LOWEST, 0.0f});
            if (lane == 0)
                post(posted + static_cast<size_t>(i) * blocks + blockIdx.x, mine);
        }
        if (i < lag)
            continue;
        float largest = LOWEST, sum = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            largest = fmaxf(largest, row_warps[i % 2][w].largest);
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            sum = fmaf(row_warps[i % 2][w].sum, power((row_warps[i % 2][w].largest - largest) * LOG2E), sum);
        const float shift = largest + logf(sum);
        const bf16 *from = in + first_of(ready, cols);
        bf16 *to = out + first_of(ready, cols);
        const int length = length_of(ready.segment, cols);
        const uint4 *slot = ring + (i - lag) % SLOTS * (UNIT / 8);
        if (!aligned) {
            for (int at = threadIdx.x; at < length; at += THREADS)
                to[at] = __float2bfloat16(__bfloat162float(from[at]) - shift);
        } else if (held) {
#pragma unroll
            for (int q = 0; q < EIGHTS; q++) {
                const int eight = q * THREADS + threadIdx.x;
                if (eight < length / 8)
                    __stcs(reinterpret_cast<uint4 *>(to) + eight, shifted(slot[eight], shift));
            }
        } else {
            for (int eight = threadIdx.x; eight < length / 8; eight += THREADS)
                __stcs(reinterpret_cast<uint4 *>(to) + eight,
                       shifted(__ldcs(reinterpret_cast<const uint4 *>(from) + eight), shift));
        }
        advance(ready, step, segments);
    }
}
