// One cooperative launch that flows through the channels: a block copies a stretch of a plane to its ring in shared
// memory, posts the stretch's moments and, two rounds later, when all blocks have posted theirs, normalises it from the
// ring. So memory is read once and written once, with copies ahead and stores under way all the time.
#define THREADS 256
#define WARPS (THREADS / 32)
#define QUADS 4
#define UNIT (THREADS * QUADS * 4)
#define SLOTS 7
#define AHEAD 3
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

// The moments of what the lanes have.
__device__ __forceinline__ Moments warp_merge(const Moments &mine)
{
    const float count = warp_sum(mine.count);
    const float mean = __fdividef(warp_sum(mine.count * mine.mean), fmaxf(count, 1.0f));
    const float off = mine.mean - mean;
    return {count, mean, warp_sum(fmaf(mine.count * off, off, mine.square))};
}

// The moments of a warp's values in the ring, about their mean. Unless FULL, values past the unit's end do not count.
template <bool FULL> __device__ __forceinline__ Moments own_moments(const float4 *slot, int length)
{
    float own[QUADS][4], sum = 0.0f, square = 0.0f;
    const int left = length - 4 * static_cast<int>(threadIdx.x);
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        const float4 quad = FULL || 4 * q * THREADS < left ? slot[q * THREADS + threadIdx.x]
                                                           : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            own[q][i] = FULL || 4 * q * THREADS + i < left ? reinterpret_cast<const float *>(&quad)[i] : 0.0f;
            sum += own[q][i];
        }
    }
    float count = 128.0f * QUADS;
    if (!FULL) {
        count = 0.0f;
        for (int q = 0; q < QUADS; q++)
            count += min(128, max(0, length - 4 * (q * THREADS + static_cast<int>(threadIdx.x & ~31))));
    }
    const float mean = __fdividef(warp_sum(sum), fmaxf(count, 1.0f));
#pragma unroll
    for (int q = 0; q < QUADS; q++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float off = FULL || 4 * q * THREADS + i < left ? own[q][i] - mean : 0.0f;
            square = fmaf(off, off, square);
        }
    return {count, mean, warp_sum(square)};
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

__device__ __forceinline__ Moments await(const word *from, float count)
{
    word bits;
    do {
        asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(from) : "memory");
    } while (bits == 0);
    return {count, __uint_as_float(static_cast<unsigned>(~bits >> 32)), __uint_as_float(static_cast<unsigned>(~bits))};
}

__device__ __forceinline__ float4 normal(const float4 &v, float mean, float scale, float shift)
{
    return make_float4(fmaf(v.x - mean, scale, shift), fmaf(v.y - mean, scale, shift), fmaf(v.z - mean, scale, shift),
                       fmaf(v.w - mean, scale, shift));
}

// In round i block b has unit i * gridDim.x + b; the units of a channel follow one another, so they are in at most
// `span` + 1 rounds. A block waits only for what others post in rounds before its own.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    normalise(const float *__restrict__ in, const float *__restrict__ weight, const float *__restrict__ bias,
              float *__restrict__ out, float *__restrict__ mean, float *__restrict__ variance, word *posted, int n, int c,
              int space, float eps)
{
    extern __shared__ float4 ring[];
    __shared__ Moments unit_warps[2][WARPS];
    __shared__ float4 channel_warps[2][WARPS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, blocks = gridDim.x;
    const int segments = (space + UNIT - 1) / UNIT, parts = n * segments, units = parts * c;
    const int rounds = (units - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
    const int span = (parts + blocks - 2) / blocks, lag = max(2, span + 1);
    const bool aligned = space % 4 == 0, held = lag + AHEAD < SLOTS;
    const float share_of_one = 1.0f / (static_cast<float>(n) * space);
    const Place step = place_of(blocks, n, segments);
    Place next = place_of(blockIdx.x, n, segments), own = next, ready = next;
    for (int i = -AHEAD; i < rounds + lag; i++) {
        if (i + AHEAD < rounds)
            copy_ahead(ring + (i + AHEAD) % SLOTS * (UNIT / 4), in + first_of(next, c, space), length_of(next, space),
                       aligned);
        asm volatile("cp.async.commit_group;" ::: "memory");
        advance(next, step, n, segments);
        if (i < 0)
            continue;
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD) : "memory");
        if (i < rounds) {
            const float4 *slot = ring + i % SLOTS * (UNIT / 4);
            const int length = length_of(own, space);
            const Moments mine = length == UNIT ? own_moments<true>(slot, UNIT) : own_moments<false>(slot, length);
            if (lane == 0)
                unit_warps[i % 2][warp] = mine;
            advance(own, step, n, segments);
        }
        if (i >= lag) {
            Moments mine = {0.0f, 0.0f, 0.0f};
            for (int part = threadIdx.x; part < parts; part += THREADS) {
                const float count = length_of({0, 0, part % segments}, space), both = mine.count + count;
                const Moments one = await(posted + ready.channel * parts + part, count);
                const float off = one.mean - mine.mean, share = __fdividef(count, both);
                mine = {both, fmaf(off, share, mine.mean), mine.square + fmaf(off * off, mine.count * share, one.square)};
            }
            if (32 * warp < parts)
                mine = warp_merge(mine);
            if (lane == 0)
                channel_warps[i % 2][warp] = make_float4(mine.count, mine.mean, mine.square, 0.0f);
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
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            sum = fmaf(channel_warps[i % 2][w].x, channel_warps[i % 2][w].y, sum);
        const float middle = sum * share_of_one;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float4 part = channel_warps[i % 2][w];
            square += fmaf(part.x * (part.y - middle), part.y - middle, part.z);
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
