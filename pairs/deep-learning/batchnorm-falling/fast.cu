// One cooperative launch that flows through the channels: a block copies a stretch of a plane to its ring in shared
// memory, posts the stretch's moments and, LAG rounds later, when all blocks have posted theirs, normalises it from the
// ring. So memory is read once and written once, with copies ahead and stores under way all the time.
#include <cooperative_groups.h>

#define THREADS 256
#define WARPS (THREADS / 32)
#define QUADS 4
#define UNIT (THREADS * QUADS * 4)
#define SLOTS 4
#define AHEAD 1
#define LAG 2
#define ALL 0xffffffffu

typedef unsigned long long word;

struct Moments {
    float count, mean, square;
};

// Where a block is: at a stretch (segment) of a plane of one channel. The planes of a channel follow one another.
struct Place {
    int channel, image, segment;
};

__device__ __forceinline__ Place place_of(int unit, int n, int segments)
{
    const int plane = unit / segments;
    return {plane / n, plane % n, unit % segments};
}

__device__ __forceinline__ void advance(Place &at, const Place &step, int n, int segments)
{
    at.segment += step.segment;
    at.image += step.image;
    at.channel += step.channel;
    if (at.segment >= segments) {
        at.segment -= segments;
        at.image++;
    }
    if (at.image >= n) {
        at.image -= n;
        at.channel++;
    }
}

__device__ __forceinline__ int first_of(const Place &at, int c, int space)
{
    return (at.image * c + at.channel) * space + at.segment * UNIT;
}

__device__ __forceinline__ int length_of(const Place &at, int space) { return min(UNIT, space - at.segment * UNIT); }

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

// The moments of a warp's values in the ring, in one pass about the first of them. Unless FULL, values past the unit's
// end do not count.
template <bool FULL> __device__ __forceinline__ Moments own_moments(const float4 *slot, int length)
{
    float4 own[QUADS];
    const int left = length - 4 * static_cast<int>(threadIdx.x);
#pragma unroll
    for (int q = 0; q < QUADS; q++)
        own[q] = FULL || 4 * q * THREADS < left ? slot[q * THREADS + threadIdx.x] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float count = 128.0f * QUADS;
    if (!FULL) {
        count = 0.0f;
        for (int q = 0; q < QUADS; q++)
            count += min(128, max(0, length - 4 * (q * THREADS + static_cast<int>(threadIdx.x & ~31))));
    }
    const float pivot = __shfl_sync(ALL, own[0].x, 0);
    float sum = 0.0f, square = 0.0f;
#pragma unroll
    for (int q = 0; q < QUADS; q++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float off =
                FULL || 4 * q * THREADS + i < left ? reinterpret_cast<const float *>(&own[q])[i] - pivot : 0.0f;
            sum += off;
            square = fmaf(off, off, square);
        }
    sum = warp_sum(sum);
    square = warp_sum(square);
    const float shift = __fdividef(sum, fmaxf(count, 1.0f));
    return {count, pivot + shift, fmaxf(fmaf(-sum, shift, square), 0.0f)};
}

// A thread copies what it will read itself, so that the ring needs no barriers.
__device__ __forceinline__ void copy_ahead(float4 *slot, const float *__restrict__ from, int length, bool aligned)
{
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(slot));
    if (aligned) {
#pragma unroll
        for (int q = 0; q < QUADS; q++) {
            const int quad = q * THREADS + threadIdx.x;
            if (4 * quad < length)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 16 * quad), "l"(from + 4 * quad)
                             : "memory");
        }
        return;
    }
#pragma unroll 1
    for (int quad = threadIdx.x; 4 * quad < length; quad += THREADS)
        for (int at = 4 * quad; at < min(4 * quad + 4, length); at++)
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to + 4 * at), "l"(from + at) : "memory");
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

__device__ __forceinline__ float4 normal(const float4 &v, float mean, float scale, float shift)
{
    return make_float4(fmaf(v.x - mean, scale, shift), fmaf(v.y - mean, scale, shift), fmaf(v.z - mean, scale, shift),
                       fmaf(v.w - mean, scale, shift));
}

// In round i block b has unit i * gridDim.x + b; the units of a channel follow one another, so they are in at most
// `span` + 1 rounds. A block waits only for what others post in rounds before its own.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    normalise(const float *__restrict__ in, const float *__restrict__ weight, const float *__restrict__ bias,
              float *__restrict__ out, float *__restrict__ mean, float *__restrict__ variance, word *posted, int n, int c,
              int space, float eps)
{
    extern __shared__ float4 ring[];
    __shared__ Moments unit_warps[2][WARPS], channel_warps[2][WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, blocks = gridDim.x;
    const int segments = (space + UNIT - 1) / UNIT, parts = n * segments, units = parts * c;
    const int rounds = (units - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
    const int span = (parts + blocks - 2) / blocks, lag = max(LAG, span + 1);
    const int used_warps = min(WARPS, (parts + 31) / 32);
    const bool aligned = space % 4 == 0, held = lag + AHEAD < SLOTS;
    const float share_of_one = 1.0f / (static_cast<float>(n) * space);
    const Place step = place_of(blocks, n, segments);
    Place next = place_of(blockIdx.x, n, segments), own = next, ready = next;
    // Commits a copy group even if nothing is left, so that AHEAD of them are always behind the round's own.
    auto request = [&](int round) {
        if (round < rounds)
            copy_ahead(ring + round % SLOTS * (UNIT / 4), in + first_of(next, c, space), length_of(next, space), aligned);
        asm volatile("cp.async.commit_group;" ::: "memory");
        advance(next, step, n, segments);
    };
    for (int i = 0; i < AHEAD; i++)
        request(i);
    // While the first copies are under way, the grid agrees that nothing has been posted.
    for (int i = threadIdx.x; i < rounds; i += THREADS)
        posted[i * blocks + blockIdx.x] = 0;
    cooperative_groups::this_grid().sync();
    for (int i = 0; i < rounds + lag; i++) {
        request(i + AHEAD);
        const word *const channel_posts = posted + ready.channel * parts;
        word early = 0;
        if (i >= lag && static_cast<int>(threadIdx.x) < parts)
            early = look(channel_posts + threadIdx.x);
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD) : "memory");
        if (i < rounds) {
            const float4 *slot = ring + i % SLOTS * (UNIT / 4);
            const int length = length_of(own, space);
            const Moments mine = length == UNIT ? own_moments<true>(slot, UNIT) : own_moments<false>(slot, length);
            if (lane == 0)
                unit_warps[i % 2][warp] = mine;
            advance(own, step, n, segments);
        }
        if (i >= lag && warp < used_warps) {
            Moments mine = {0.0f, 0.0f, 0.0f};
            for (int part = threadIdx.x; part < parts; part += THREADS) {
                const float count = length_of({0, 0, part % segments}, space), both = mine.count + count;
                const Moments one = await(channel_posts + part, early, count);
                early = 0;
                const float off = one.mean - mine.mean, share = __fdividef(count, both);
                mine = {both, fmaf(off, share, mine.mean), mine.square + fmaf(off * off, mine.count * share, one.square)};
            }
            mine = warp_merge(mine);
            if (lane == 0)
                channel_warps[i % 2][warp] = mine;
        }
        const int channel = min(ready.channel, c - 1);
        const float gain = weight[channel], shift = bias[channel];
        __syncthreads();
        if (i < rounds && warp == WARPS - 1) {
            const Moments mine = warp_merge(lane < WARPS ? unit_warps[i % 2][lane] : Moments{0.0f, 0.0f, 0.0f});
            if (lane == 0)
                post(posted + i * blocks + blockIdx.x, mine);
        }
        if (i < lag)
            continue;
        float sum = 0.0f, square = 0.0f;
        for (int w = 0; w < used_warps; w++)
            sum = fmaf(channel_warps[i % 2][w].count, channel_warps[i % 2][w].mean, sum);
        const float middle = sum * share_of_one;
        for (int w = 0; w < used_warps; w++) {
            const Moments part = channel_warps[i % 2][w];
            square += fmaf(part.count * (part.mean - middle), part.mean - middle, part.square);
        }
        const float spread = square * share_of_one;
        if (ready.image == 0 && ready.segment == 0 && threadIdx.x == 0) {
            mean[channel] = middle;
            variance[channel] = spread;
        }
        const float scale = gain * rsqrtf(spread + eps);
        const float4 *slot = ring + (i - lag) % SLOTS * (UNIT / 4);
        const float *from = in + first_of(ready, c, space);
        float *to = out + first_of(ready, c, space);
        const int length = length_of(ready, space);
        if (!aligned) {
            for (int at = threadIdx.x; at < length; at += THREADS)
                to[at] = fmaf(from[at] - middle, scale, shift);
        } else if (held) {
#pragma unroll
            for (int q = 0; q < QUADS; q++) {
                const int quad = q * THREADS + threadIdx.x;
                if (4 * quad < length)
                    __stcs(reinterpret_cast<float4 *>(to) + quad, normal(slot[quad], middle, scale, shift));
            }
        } else {
            for (int quad = threadIdx.x; 4 * quad < length; quad += THREADS)
                __stcs(reinterpret_cast<float4 *>(to) + quad,
                       normal(__ldcs(reinterpret_cast<const float4 *>(from) + quad), middle, scale, shift));
        }
        advance(ready, step, n, segments);
    }
}
