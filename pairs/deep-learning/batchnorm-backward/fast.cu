// One cooperative launch that flows through the channels: a block copies a stretch of a plane of x and dy to its ring in
// shared memory, posts the stretch's sums and, LAG rounds later, when all blocks have posted theirs, makes the gradient
// from the ring. So memory is read once and written once, with copies ahead and stores under way all the time.
#include <cooperative_groups.h>
#include <cuda_bf16.h>

#define THREADS 224
#define WARPS (THREADS / 32)
#define EIGHTS 2
#define UNIT (392 * 8)
#define SLOT (2 * UNIT / 8)
#define SLOTS 4
#define AHEAD 1
#define LAG 2
#define LOOKS 4
#define ALL 0xffffffffu

typedef unsigned long long word;
typedef __nv_bfloat16 bf16;

// Where a block is: at a stretch (segment) of a plane of one channel. The planes of a channel follow one another.
struct Place {
    int channel, image, segment;
};

// dx = by * dy + slope * x + shift
struct Line {
    float by, slope, shift;
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

__device__ __forceinline__ size_t first_of(const Place &at, int channels, int space)
{
    return static_cast<size_t>(at.image * channels + at.channel) * space + at.segment * UNIT;
}

__device__ __forceinline__ int eights_of(const Place &at, int space) { return min(UNIT, space - at.segment * UNIT) / 8; }

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

__device__ __forceinline__ float2 warp_sums(float2 value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        value.x += __shfl_xor_sync(ALL, value.x, offset);
        value.y += __shfl_xor_sync(ALL, value.y, offset);
    }
    return value;
}

__device__ __forceinline__ void add_eight(float2 &sums, const uint4 &x, const uint4 &dy, float middle)
{
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 v = at(x, j), d = at(dy, j);
        sums.x = fmaf(d.x, v.x - middle, fmaf(d.y, v.y - middle, sums.x));
        sums.y += d.x + d.y;
    }
}

__device__ __forceinline__ uint4 gradient(const uint4 &x, const uint4 &dy, const Line &line)
{
    uint4 result;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 v = at(x, j), d = at(dy, j);
        reinterpret_cast<__nv_bfloat162 *>(&result)[j] =
            __floats2bfloat162_rn(fmaf(line.by, d.x, fmaf(line.slope, v.x, line.shift)),
                                  fmaf(line.by, d.y, fmaf(line.slope, v.y, line.shift)));
    }
    return result;
}

__device__ __forceinline__ Line line_of(float dweight, float dbias, float weight, float mean, float rstd,
                                        float share_of_one)
{
    const float by = weight * rstd, slope = -by * rstd * dweight * share_of_one;
    return {by, slope, -by * dbias * share_of_one - slope * mean};
}

// A thread copies what it will read itself, so that the ring needs no barriers.
__device__ __forceinline__ void copy_ahead(uint4 *slot, const bf16 *__restrict__ x, const bf16 *__restrict__ dy, int eights)
{
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(slot));
#pragma unroll
    for (int q = 0; q < EIGHTS; q++) {
        const int eight = q * THREADS + threadIdx.x;
        if (eight < eights) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 16 * eight), "l"(x + 8 * eight) : "memory");
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 16 * (SLOT / 2 + eight)), "l"(dy + 8 * eight)
                         : "memory");
        }
    }
}

// Posted inverted, for a word of zeros means that nothing has come yet.
__device__ __forceinline__ void post(word *to, float2 sums)
{
    const word bits = static_cast<word>(__float_as_uint(sums.x)) << 32 | __float_as_uint(sums.y);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(max(~bits, 1ull)) : "memory");
}

__device__ __forceinline__ word look(const word *from)
{
    word bits;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(from) : "memory");
    return bits;
}

// From `bits` on, which may have been looked at early.
__device__ __forceinline__ float2 await(const word *from, word bits)
{
    while (bits == 0)
        bits = look(from);
    return make_float2(__uint_as_float(static_cast<unsigned>(~bits >> 32)), __uint_as_float(static_cast<unsigned>(~bits)));
}

// Planes that do not begin at 16 bytes: a warp a plane, in three phases of the grid.
__device__ __forceinline__ void by_elements(const bf16 *__restrict__ x, const bf16 *__restrict__ dy,
                                            const float *__restrict__ weight, const float *__restrict__ mean,
                                            const float *__restrict__ rstd, bf16 *__restrict__ dx, float *dweight,
                                            float *dbias, float2 *partial, int n, int channels, int space)
{
    const int lane = threadIdx.x % 32, warps = WARPS + 1, first = blockIdx.x * warps + threadIdx.x / 32;
    const int stride = gridDim.x * warps;
    for (int plane = first; plane < n * channels; plane += stride) {
        const int channel = plane % channels;
        const size_t begin = static_cast<size_t>(plane) * space;
        float2 sums = make_float2(0.0f, 0.0f);
#pragma unroll 2
        for (int i = lane; i < space; i += 32) {
            const float d = __bfloat162float(dy[begin + i]);
            sums.x = fmaf(d, __bfloat162float(x[begin + i]) - mean[channel], sums.x);
            sums.y += d;
        }
        sums = warp_sums(sums);
        if (lane == 0)
            partial[channel * n + plane / channels] = sums;
    }
    cooperative_groups::this_grid().sync();
    for (int channel = first; channel < channels; channel += stride) {
        float2 sums = make_float2(0.0f, 0.0f);
        for (int i = lane; i < n; i += 32) {
            const float2 one = __ldcg(partial + channel * n + i);
            sums = make_float2(sums.x + one.x, sums.y + one.y);
        }
        sums = warp_sums(sums);
        if (lane == 0) {
            dweight[channel] = sums.x * rstd[channel];
            dbias[channel] = sums.y;
        }
    }
    cooperative_groups::this_grid().sync();
    for (int plane = first; plane < n * channels; plane += stride) {
        const int channel = plane % channels;
        const size_t begin = static_cast<size_t>(plane) * space;
        const Line line = line_of(__ldcg(dweight + channel), __ldcg(dbias + channel), weight[channel], mean[channel],
                                  rstd[channel], 1.0f / (static_cast<float>(n) * space));
#pragma unroll 2
        for (int i = lane; i < space; i += 32)
            dx[begin + i] = __float2bfloat16(fmaf(line.by, __bfloat162float(dy[begin + i]),
                                                  fmaf(line.slope, __bfloat162float(x[begin + i]), line.shift)));
    }
}

// In round i block b has unit i * gridDim.x + b; the units of a channel follow one another, so they are in at most
// `span` + 1 rounds. A block waits only for what others post in rounds before its own. Its last warp does that and
// posts, while the others work on the stretch of the round.
extern "C" __global__ void __launch_bounds__(THREADS + 32, 4)
    batchnorm_backward(const bf16 *__restrict__ x, const bf16 *__restrict__ dy, const float *__restrict__ weight,
                       const float *__restrict__ mean, const float *__restrict__ rstd, bf16 *__restrict__ dx,
                       float *dweight, float *dbias, word *posted, int n, int channels, int space)
{
    extern __shared__ uint4 ring[];
    __shared__ float2 unit_warps[2][WARPS];
    __shared__ Line lines[2];
    if (space % 8 != 0) {
        by_elements(x, dy, weight, mean, rstd, dx, dweight, dbias, reinterpret_cast<float2 *>(posted), n, channels, space);
        return;
    }
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, blocks = gridDim.x;
    const int segments = (space + UNIT - 1) / UNIT, parts = n * segments, units = parts * channels;
    const int rounds = (units - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
    const int span = (parts + blocks - 2) / blocks, lag = max(LAG, span + 1);
    const bool helper = warp == WARPS;
    const bool held = lag + AHEAD < SLOTS;
    const float share_of_one = 1.0f / (static_cast<float>(n) * space);
    const Place step = place_of(blocks, n, segments);
    Place next = place_of(blockIdx.x, n, segments), own = next, ready = next;
    float middle = mean[own.channel];
    // Commits a copy group even if nothing is left, so that AHEAD of them are always behind the round's own.
    auto request = [&](int round) {
        if (!helper && round < rounds) {
            const size_t first = first_of(next, channels, space);
            copy_ahead(ring + round % SLOTS * SLOT, x + first, dy + first, eights_of(next, space));
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        advance(next, step, n, segments);
    };
    for (int i = 0; i < AHEAD; i++)
        request(i);
    // While the first copies are under way, the grid agrees that nothing has been posted.
    for (int i = threadIdx.x; i < rounds; i += THREADS + 32)
        posted[i * blocks + blockIdx.x] = 0;
    cooperative_groups::this_grid().sync();
    for (int i = 0; i < rounds + lag; i++) {
        if (!helper) {
            request(i + AHEAD);
            asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD) : "memory");
            if (i < rounds) {
                const uint4 *slot = ring + i % SLOTS * SLOT;
                const int eights = eights_of(own, space);
                float2 sums = make_float2(0.0f, 0.0f);
#pragma unroll
                for (int q = 0; q < EIGHTS; q++) {
                    const int eight = q * THREADS + threadIdx.x;
                    if (eight < eights)
                        add_eight(sums, slot[eight], slot[SLOT / 2 + eight], middle);
                }
                sums = warp_sums(sums);
                if (lane == 0)
                    unit_warps[i % 2][warp] = sums;
                advance(own, step, n, segments);
                middle = mean[min(own.channel, channels - 1)];
            }
        } else if (i >= lag) {
            const float gain = weight[ready.channel], centre = mean[ready.channel], scale = rstd[ready.channel];
            const word *const channel_posts = posted + ready.channel * parts;
            float2 sums = make_float2(0.0f, 0.0f);
            for (int first = lane; first < parts; first += 32 * LOOKS) {
                word early[LOOKS];
#pragma unroll
                for (int u = 0; u < LOOKS; u++)
                    early[u] = first + 32 * u < parts ? look(channel_posts + first + 32 * u) : 0;
#pragma unroll
                for (int u = 0; u < LOOKS; u++)
                    if (first + 32 * u < parts) {
                        const float2 one = await(channel_posts + first + 32 * u, early[u]);
                        sums = make_float2(sums.x + one.x, sums.y + one.y);
                    }
            }
            sums = warp_sums(sums);
            if (lane == 0) {
                lines[i % 2] = line_of(sums.x * scale, sums.y, gain, centre, scale, share_of_one);
                if (ready.image == 0 && ready.segment == 0) {
                    dweight[ready.channel] = sums.x * scale;
                    dbias[ready.channel] = sums.y;
                }
            }
        }
        __syncthreads();
        if (helper && i < rounds) {
            const float2 sums = warp_sums(lane < WARPS ? unit_warps[i % 2][lane] : make_float2(0.0f, 0.0f));
            if (lane == 0)
                post(posted + i * blocks + blockIdx.x, sums);
        }
        if (i < lag)
            continue;
        if (helper) {
            advance(ready, step, n, segments);
            continue;
        }
        const Line line = lines[i % 2];
        const size_t first = first_of(ready, channels, space);
        const uint4 *slot = ring + (i - lag) % SLOTS * SLOT;
        const uint4 *from = reinterpret_cast<const uint4 *>(x + first), *grad = reinterpret_cast<const uint4 *>(dy + first);
        uint4 *to = reinterpret_cast<uint4 *>(dx + first);
        const int eights = eights_of(ready, space);
#pragma unroll
        for (int q = 0; q < EIGHTS; q++) {
            const int eight = q * THREADS + threadIdx.x;
            if (eight < eights) {
                const uint4 a = held ? slot[eight] : __ldcs(from + eight);
                const uint4 g = held ? slot[SLOT / 2 + eight] : __ldcs(grad + eight);
                __stcs(to + eight, gradient(a, g, line));
            }
        }
        advance(ready, step, n, segments);
    }
}
