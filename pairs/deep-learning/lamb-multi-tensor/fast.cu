// One cooperative launch that flows through the chunks: a block makes the moments of a chunk, keeps its weights and
// updates in shared memory, posts the norms and, LAG rounds later, when all blocks have posted theirs, applies the
// update from there. So nothing is read twice, with copies AHEAD chunks ahead and stores under way all the time.
#define THREADS 512
#define WARPS (THREADS / 32)
#define CHUNK (THREADS * 4)
#define AHEAD 2
#define LAG 2
#define ALL 0xffffffffu

typedef unsigned long long word;

struct Settings {
    float beta1, beta2, eps, decay, rate;
};

__device__ __forceinline__ float update_of(float m, float v, float w, const Settings &s)
{
    return fmaf(s.decay, w, __fdividef(m, sqrtf(v) + s.eps));
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

// Four numbers to a thread's own place in shared memory; zeros past the end.
__device__ __forceinline__ void copy_ahead(float4 *to, const float *from, int i, int total)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from + i), "r"(4 * min(4, total - i))
                 : "memory");
}

// A chunk into its stage, whose last contents the thread has read by now.
__device__ __forceinline__ void copy_chunk(float4 *stages, int i, int rounds, const float *gradient, const float *m,
                                           const float *v, const float *weights, int total)
{
    const int next = (i * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x)) * CHUNK + 4 * threadIdx.x;
    if (i < rounds && next < total) {
        float4 *stage = stages + i % AHEAD * 4 * THREADS;
        copy_ahead(stage, gradient, next, total);
        copy_ahead(stage + THREADS, m, next, total);
        copy_ahead(stage + 2 * THREADS, v, next, total);
        copy_ahead(stage + 3 * THREADS, weights, next, total);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ __forceinline__ void put_quad(float *to, int i, int total, const float (&quad)[4])
{
    if (i + 4 <= total)
        __stcs(reinterpret_cast<float4 *>(to + i), make_float4(quad[0], quad[1], quad[2], quad[3]));
    else
#pragma unroll
        for (int j = 0; j < 3; j++)
            if (i + j < total)
                to[i + j] = quad[j];
}

// Posted inverted, for a word of zeros means that nothing has come yet.
__device__ __forceinline__ void post(word *to, float2 sums)
{
    const word bits = static_cast<word>(__float_as_uint(sums.x)) << 32 | __float_as_uint(sums.y);
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(max(~bits, 1ull)) : "memory");
}

__device__ __forceinline__ word peek(const word *from)
{
    word bits;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(bits) : "l"(from) : "memory");
    return bits;
}

// `bits`: what an early look has found.
__device__ __forceinline__ float2 await(const word *from, word bits)
{
    while (bits == 0)
        bits = peek(from);
    return make_float2(__uint_as_float(static_cast<unsigned>(~bits >> 32)),
                       __uint_as_float(static_cast<unsigned>(~bits)));
}

// In round i block b has chunk i * gridDim.x + b; the share of tensor t in chunk k has place k + t among the posted
// words. The chunks of a tensor lie in at most `span` + 1 rounds, and a block waits only for what others post up to its
// own round.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    lamb(const float *__restrict__ gradient, float *m, float *v, float *weights, const int *__restrict__ starts,
         word *posted, int tensors, int total, int longest, float beta1, float beta2, float eps, float decay,
         float rate)
{
    extern __shared__ float4 shared[];
    __shared__ float2 parts[2][WARPS];
    const Settings settings = {beta1, beta2, eps, decay, rate};
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, blocks = gridDim.x;
    const int chunks = (total + CHUNK - 1) / CHUNK;
    const int rounds = (chunks - static_cast<int>(blockIdx.x) + blocks - 1) / blocks;
    const int span = ((longest + CHUNK - 2) / CHUNK + blocks - 1) / blocks, lag = max(LAG, span + 1);
    const bool held = lag == LAG;
    float4 *const stages = shared + threadIdx.x, *const ring = stages + AHEAD * 4 * THREADS;
    int tensor = 0, late = 0, known = -1, turn = 0;
    float step = 0.0f;
    for (int i = 0; i < AHEAD; i++)
        copy_chunk(stages, i, rounds, gradient, m, v, weights, total);
    for (int i = 0; i < rounds + lag; i++) {
        const int after = ((i - lag) * blocks + blockIdx.x) * CHUNK, until = min(after + CHUNK, total);
        const int there = after + 4 * threadIdx.x;
        float4 *slot = ring + i % LAG * 2 * THREADS;
        float4 old = make_float4(0.0f, 0.0f, 0.0f, 0.0f), change = old;
        word early = 0;
        if (i >= lag) {
            while (starts[late + 1] <= after)
                late++;
            const int part = starts[late] / CHUNK + threadIdx.x;
            if (late != known && part <= (starts[late + 1] - 1) / CHUNK)
                early = peek(posted + part + late);
            if (held && there < total) {
                old = slot[0];
                change = slot[THREADS];
            }
        }
        asm volatile("cp.async.wait_group %0;" ::"n"(AHEAD - 1) : "memory");
        if (i < rounds) {
            const int chunk = i * blocks + blockIdx.x, begin = chunk * CHUNK, end = min(begin + CHUNK, total);
            const int at = begin + 4 * threadIdx.x;
            float w[4] = {}, u[4] = {};
            if (at < total) {
                const float4 *stage = stages + i % AHEAD * 4 * THREADS;
                const float4 gs = stage[0], ms = stage[THREADS], vs = stage[2 * THREADS], ws = stage[3 * THREADS];
                const float g[4] = {gs.x, gs.y, gs.z, gs.w};
                float a[4] = {ms.x, ms.y, ms.z, ms.w}, b[4] = {vs.x, vs.y, vs.z, vs.w};
                w[0] = ws.x, w[1] = ws.y, w[2] = ws.z, w[3] = ws.w;
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    a[j] = fmaf(beta1, a[j], (1.0f - beta1) * g[j]);
                    b[j] = fmaf(beta2, b[j], (1.0f - beta2) * g[j] * g[j]);
                    u[j] = update_of(a[j], b[j], w[j], settings);
                }
                put_quad(m, at, total, a);
                put_quad(v, at, total, b);
                slot[0] = ws;
                slot[THREADS] = make_float4(u[0], u[1], u[2], u[3]);
            }
            copy_chunk(stages, i + AHEAD, rounds, gradient, m, v, weights, total);
            while (starts[tensor + 1] <= begin)
                tensor++;
            for (int t = tensor; t < tensors && starts[t] < end; t++) {
                const int from = max(starts[t], begin), to = min(starts[t + 1], end);
                float2 sums = make_float2(0.0f, 0.0f);
#pragma unroll
                for (int j = 0; j < 4; j++)
                    if (at + j >= from && at + j < to) {
                        sums.x = fmaf(w[j], w[j], sums.x);
                        sums.y = fmaf(u[j], u[j], sums.y);
                    }
                sums = warp_sums(sums);
                if (lane == 0)
                    parts[turn][warp] = sums;
                __syncthreads();
                if (warp == WARPS - 1) {
                    sums = warp_sums(lane < WARPS ? parts[turn][lane] : make_float2(0.0f, 0.0f));
                    if (lane == 0)
                        post(posted + chunk + t, sums);
                }
                turn ^= 1;
            }
        }
        if (i < lag)
            continue;
        float w[4] = {old.x, old.y, old.z, old.w}, u[4] = {change.x, change.y, change.z, change.w};
        if (!held && there < total) {
            if (there + 4 <= total) {
                const float4 ws = __ldcs(reinterpret_cast<const float4 *>(weights + there));
                const float4 ms = __ldcs(reinterpret_cast<const float4 *>(m + there));
                const float4 vs = __ldcs(reinterpret_cast<const float4 *>(v + there));
                w[0] = ws.x, w[1] = ws.y, w[2] = ws.z, w[3] = ws.w;
                u[0] = update_of(ms.x, vs.x, ws.x, settings), u[1] = update_of(ms.y, vs.y, ws.y, settings);
                u[2] = update_of(ms.z, vs.z, ws.z, settings), u[3] = update_of(ms.w, vs.w, ws.w, settings);
            } else {
#pragma unroll
                for (int j = 0; j < 3; j++)
                    if (there + j < total) {
                        w[j] = weights[there + j];
                        u[j] = update_of(m[there + j], v[there + j], w[j], settings);
                    }
            }
        }
        for (int t = late; t < tensors && starts[t] < until; t++) {
            const int from = starts[t], to = starts[t + 1];
            if (from < to && t != known) {
                float2 sums = make_float2(0.0f, 0.0f);
                word bits = t == late ? early : 0;
                for (int chunk = from / CHUNK + threadIdx.x; chunk <= (to - 1) / CHUNK; chunk += THREADS, bits = 0) {
                    const float2 one = await(posted + chunk + t, bits);
                    sums = make_float2(sums.x + one.x, sums.y + one.y);
                }
                sums = warp_sums(sums);
                if (lane == 0)
                    parts[turn][warp] = sums;
                __syncthreads();
                sums = make_float2(0.0f, 0.0f);
#pragma unroll
                for (int other = 0; other < WARPS; other++)
                    sums = make_float2(sums.x + parts[turn][other].x, sums.y + parts[turn][other].y);
                step = rate * sqrtf(__fdividef(sums.x, sums.y));
                turn ^= 1;
                known = t;
            }
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (there + j >= from && there + j < to)
                    w[j] = fmaf(-step, u[j], w[j]);
        }
        if (there < total)
            put_quad(weights, there, total, w);
    }
}
