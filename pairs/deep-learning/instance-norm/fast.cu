// One cooperative launch that flows through the planes: a block copies a stretch of a plane to its ring in shared memory,
// posts the stretch's moments and, LAG rounds later, when all blocks have posted theirs, normalises it from the ring. So
// memory is read once and written once, with copies ahead and stores under way all the time.
#include <cooperative_groups.h>
#include <cuda_fp16.h>

#define THREADS 256
#define WARPS (THREADS / 32)
#define EIGHTS 4
#define UNIT (THREADS * EIGHTS * 8)
#define SLOTS 4
#define AHEAD 1
#define LAG 2
#define ALL 0xffffffffu

typedef unsigned long long word;

struct Moments {
    float count, mean, square;
};

// Where a block is: at a stretch (segment) of a plane.
struct Place {
    int plane, segment;
};

__device__ __forceinline__ void advance(Place &at, const Place &step, int segments)
{
    at.segment += step.segment;
    at.plane += step.plane;
    if (at.segment >= segments) {
        at.segment -= segments;
        at.plane++;
    }
}

__device__ __forceinline__ size_t first_of(const Place &at, int space)
{
    return static_cast<size_t>(at.plane) * space + at.segment * UNIT;
}

__device__ __forceinline__ int length_of(int segment, int space) { return min(UNIT, space - segment * UNIT); }

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __half22float2(reinterpret_cast<const half2 *>(&bits)[j]);
}

__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    return value;
}

// The moments of what the lanes have, of which the first has some, about that one's mean: so the squares cancel little.
__device__ __forceinline__ Moments warp_merge(const Moments &mine)
{
    const float pivot = __shfl_sync(ALL, mine.mean, 0), off = mine.mean - pivot;
    const float count = warp_sum(mine.count), sum = warp_sum(mine.count * off);
    const float square = warp_sum(fmaf(mine.count * off, off, mine.square));
    const float shift = __fdividef(sum, fmaxf(count, 1.0f));
    return {count, pivot + shift, fmaxf(fmaf(-sum, shift, square), 0.0f)};
}

// The moments of a warp's values in the ring, in one pass about the first of them. Unless FULL, eights past the unit's
// end do not count.
template <bool FULL> __device__ __forceinline__ Moments own_moments(const uint4 *slot, int eights)
{
    uint4 own[EIGHTS];
    int warp_eights = 32 * EIGHTS;
    if (!FULL)
        warp_eights = 0;
#pragma unroll
    for (int q = 0; q < EIGHTS; q++) {
        const int eight = q * THREADS + threadIdx.x;
        own[q] = FULL || eight < eights ? slot[eight] : make_uint4(0, 0, 0, 0);
        if (!FULL)
            warp_eights += min(32, max(0, eights - (eight & ~31)));
    }
    const float count = 8.0f * warp_eights, pivot = __shfl_sync(ALL, at(own[0], 0).x, 0);
    float sum = 0.0f, square = 0.0f;
#pragma unroll
    for (int q = 0; q < EIGHTS; q++)
        if (FULL || q * THREADS + static_cast<int>(threadIdx.x) < eights) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float left = at(own[q], j).x - pivot, right = at(own[q], j).y - pivot;
                sum += left + right;
                square = fmaf(left, left, fmaf(right, right, square));
            }
        }
    sum = warp_sum(sum);
    square = warp_sum(square);
    const float shift = __fdividef(sum, fmaxf(count, 1.0f));
    return {count, pivot + shift, fmaxf(fmaf(-sum, shift, square), 0.0f)};
}

// The same by single elements from memory, for planes that do not begin at 16 bytes.
__device__ __forceinline__ Moments element_moments(const half *__restrict__ from, int length)
{
    float count = 0.0f, sum = 0.0f, square = 0.0f;
    for (int i = threadIdx.x; i < length; i += THREADS) {
        sum += __half2float(from[i]);
        count += 1.0f;
    }
    count = warp_sum(count);
    const float mean = __fdividef(warp_sum(sum), fmaxf(count, 1.0f));
    for (int i = threadIdx.x; i < length; i += THREADS) {
        const float off = __half2float(from[i]) - mean;
        square = fmaf(off, off, square);
    }
    return {count, mean, warp_sum(square)};
}

// A thread copies what it will read itself, so that the ring needs no barriers.
__device__ __forceinline__ void copy_ahead(uint4 *slot, const half *__restrict__ from, int eights)
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
__device__ __forceinline__ void post(word *to, const Moments &moments)
{
    const word bits = static_cast<word>(__float_as_uint(moments.mean)) << 32 | __float_as_uint(moments.square);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(max(~bits, 1ull)) : "memory");
}

__device__ __forceinline__ word look(const word *from)
{
    word bits;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(from) : "memory");
    return bits;
}

// From `bits` on, which may have been looked at early.
__device__ __forceinline__ Moments await(const word *from, word bits, float count)
{
    while (bits == 0)
        bits = look(from);
    return {count, __uint_as_float(static_cast<unsigned>(~bits >> 32)), __uint_as_float(static_cast<unsigned>(~bits))};
}

// A slope above one turns the corner downwards.
__device__ __forceinline__ float leaky(float x, float slope)
{
    return slope <= 1.0f ? fmaxf(x, slope * x) : fminf(x, slope * x);
}

__device__ __forceinline__ uint4 scaled(const uint4 &bits, float by, float shift, float slope)
{
    uint4 result;
#pragma unroll
    for (int j = 0; j < 4; j++)
        reinterpret_cast<half2 *>(&result)[j] = __floats2half2_rn(leaky(fmaf(at(bits, j).x, by, shift), slope),
                                                                  leaky(fmaf(at(bits, j).y, by, shift), slope));
    return result;
}

// In round i block b has unit i * gridDim.x + b; the units of a plane follow one another, so they are in at most
// `span` + 1 rounds. A block waits only for what others post in rounds before its own.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    instance_norm(const half *__restrict__ in, const half *__restrict__ weight, const half *__restrict__ bias,
                  half *__restrict__ out, word *posted, int planes, int channels, int space, float eps, float slope)
{
    extern __shared__ uint4 ring[];
    __shared__ Moments unit_warps[2][WARPS], plane_warps[2][WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, blocks = gridDim.x;
    const int segments = (space + UNIT - 1) / UNIT, units = segments * planes;
    const int rounds = (units - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
    const int span = (segments + blocks - 2) / blocks, lag = max(LAG, span + 1);
    const int used_warps = min(WARPS, (segments + 31) / 32);
    const bool aligned = space % 8 == 0, held = lag + AHEAD < SLOTS;
    const float share_of_one = 1.0f / space;
    const Place step = {blocks / segments, blocks % segments};
    Place next = {static_cast<int>(blockIdx.x) / segments, static_cast<int>(blockIdx.x) % segments};
    Place own = next, ready = next;
    // Commits a copy group even if nothing is left, so that AHEAD of them are always behind the round's own.
    auto request = [&](int round) {
        if (aligned && round < rounds)
            copy_ahead(ring + round % SLOTS * (UNIT / 8), in + first_of(next, space), length_of(next.segment, space) / 8);
        asm volatile("cp.async.commit_group;" ::: "memory");
        advance(next, step, segments);
    };
    for (int i = 0; i < AHEAD; i++)
        request(i);
    // While the first copies are under way, the grid agrees that nothing has been posted.
    for (int i = threadIdx.x; i < rounds; i += THREADS)
        posted[static_cast<size_t>(i) * blocks + blockIdx.x] = 0;
    cooperative_groups::this_grid().sync();
    for (int i = 0; i < rounds + lag; i++) {
        request(i + AHEAD);
        const word *const plane_posts = posted + static_cast<size_t>(ready.plane) * segments;
        word early = 0;
        if (i >= lag && static_cast<int>(threadIdx.x) < segments)
            early = look(plane_posts + threadIdx.x);
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD) : "memory");
        if (i < rounds) {
            const int length = length_of(own.segment, space);
            const uint4 *slot = ring + i % SLOTS * (UNIT / 8);
            const Moments mine = !aligned ? element_moments(in + first_of(own, space), length)
                                 : length == UNIT ? own_moments<true>(slot, UNIT / 8)
                                                  : own_moments<false>(slot, length / 8);
            if (lane == 0)
                unit_warps[i % 2][warp] = mine;
            advance(own, step, segments);
        }
        if (i >= lag && warp < used_warps) {
            Moments mine = {0.0f, 0.0f, 0.0f};
            for (int part = threadIdx.x; part < segments; part += THREADS) {
                const float count = length_of(part, space), both = mine.count + count;
                const Moments one = await(plane_posts + part, early, count);
                early = 0;
                const float off = one.mean - mine.mean, share = __fdividef(count, both);
                mine = {both, fmaf(off, share, mine.mean), mine.square + fmaf(off * off, mine.count * share, one.square)};
            }
            mine = warp_merge(mine);
            if (lane == 0)
                plane_warps[i % 2][warp] = mine;
        }
        const int channel = ready.plane % channels;
        const float gain = __half2float(weight[channel]), offset = __half2float(bias[channel]);
        __syncthreads();
        if (i < rounds && warp == WARPS - 1) {
            const Moments mine = warp_merge(lane < WARPS ? unit_warps[i % 2][lane] : Moments{0.0f, 0.0f, 0.0f});
            if (lane == 0)
                post(posted + static_cast<size_t>(i) * blocks + blockIdx.x, mine);
        }
        if (i < lag)
            continue;
        float sum = 0.0f, square = 0.0f;
        for (int w = 0; w < used_warps; w++)
            sum = fmaf(plane_warps[i % 2][w].count, plane_warps[i % 2][w].mean, sum);
        const float mean = sum * share_of_one;
        for (int w = 0; w < used_warps; w++) {
            const Moments part = plane_warps[i % 2][w];
            square += fmaf(part.count * (part.mean - mean), part.mean - mean, part.square);
        }
        const float by = rsqrtf(fmaf(square, share_of_one, eps)) * gain, shift = fmaf(-mean, by, offset);
        const half *from = in + first_of(ready, space);
        half *to = out + first_of(ready, space);
        const int length = length_of(ready.segment, space);
        const uint4 *slot = ring + (i - lag) % SLOTS * (UNIT / 8);
        if (!aligned) {
            for (int at = threadIdx.x; at < length; at += THREADS)
                to[at] = __float2half(leaky(fmaf(__half2float(from[at]), by, shift), slope));
        } else if (held) {
#pragma unroll
            for (int q = 0; q < EIGHTS; q++) {
                const int eight = q * THREADS + threadIdx.x;
                if (eight < length / 8)
                    __stcs(reinterpret_cast<uint4 *>(to) + eight, scaled(slot[eight], by, shift, slope));
            }
        } else {
            for (int eight = threadIdx.x; eight < length / 8; eight += THREADS)
                __stcs(reinterpret_cast<uint4 *>(to) + eight,
                       scaled(__ldcs(reinterpret_cast<const uint4 *>(from) + eight), by, shift, slope));
        }
        advance(ready, step, segments);
    }
}
