#define THREADS 256
#define WARPS (THREADS / 32)
#define PART (THREADS * 8)
#define PARTS 2
#define CHUNK (PARTS * PART)
#define ALL 0xffffffffu

// Both squared norms of a tensor and how many of its elements are in them. One more of these counts tickets.
struct Progress {
    float weight, update;
    unsigned done, tickets;
};

struct Settings {
    float beta1, beta2, eps, decay, rate;
};

__device__ __forceinline__ int tensor_of(const int *__restrict__ starts, int tensors, int i)
{
    int low = 0, high = tensors;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (starts[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

__device__ __forceinline__ float update_of(float m, float v, float w, const Settings &s)
{
    return fmaf(s.decay, w, __fdividef(m, sqrtf(v) + s.eps));
}

// Adds a block's share of both squared norms to those of one tensor, and says that `count` elements are done.
__device__ __forceinline__ void add_norms(float2 sum, Progress *progress, unsigned count)
{
    __shared__ float2 parts[WARPS];
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        sum.x += __shfl_xor_sync(ALL, sum.x, offset);
        sum.y += __shfl_xor_sync(ALL, sum.y, offset);
    }
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < WARPS; warp++) {
            sum.x += parts[warp].x;
            sum.y += parts[warp].y;
        }
        atomicAdd(&progress->weight, sum.x);
        atomicAdd(&progress->update, sum.y);
        __threadfence();
        atomicAdd(&progress->done, count);
    }
    __syncthreads();
}

// Past the first level of cache, which does not see what other blocks write.
template <bool WHOLE> __device__ __forceinline__ float4 quad_at(const float *from, int i, int total)
{
    if (WHOLE || i + 4 <= total)
        return __ldcg(reinterpret_cast<const float4 *>(from + i));
    return make_float4(__ldcg(from + i), i + 1 < total ? __ldcg(from + i + 1) : 0.0f,
                       i + 2 < total ? __ldcg(from + i + 2) : 0.0f, 0.0f);
}

template <bool WHOLE> __device__ __forceinline__ void put_quad(float *to, int i, int total, float4 quad)
{
    if (WHOLE || i + 4 <= total) {
        __stcg(reinterpret_cast<float4 *>(to + i), quad);
        return;
    }
    to[i] = quad.x;
    if (i + 1 < total)
        to[i + 1] = quad.y;
    if (i + 2 < total)
        to[i + 2] = quad.z;
}

__device__ __forceinline__ void moment(float g, float &m, float &v, const Settings &s)
{
    m = fmaf(s.beta1, m, (1.0f - s.beta1) * g);
    v = fmaf(s.beta2, v, (1.0f - s.beta2) * g * g);
}

// Moments of a part of a chunk, the weights and the update of this thread's elements; zeros where there are none.
template <bool WHOLE>
__device__ __forceinline__ void moments_of(int begin, const float *__restrict__ gradient, float *m, float *v,
                                           const float *weights, int total, const Settings &s, float (&w)[8],
                                           float (&u)[8])
{
    const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 gs[2], ms[2], vs[2], ws[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = begin + (half * THREADS + threadIdx.x) * 4;
        gs[half] = ms[half] = vs[half] = ws[half] = none;
        if (!WHOLE && i >= total)
            continue;
        gs[half] = WHOLE ? __ldcs(reinterpret_cast<const float4 *>(gradient + i)) : quad_at<false>(gradient, i, total);
        ms[half] = quad_at<WHOLE>(m, i, total);
        vs[half] = quad_at<WHOLE>(v, i, total);
        ws[half] = quad_at<WHOLE>(weights, i, total);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = begin + (half * THREADS + threadIdx.x) * 4;
        moment(gs[half].x, ms[half].x, vs[half].x, s);
        moment(gs[half].y, ms[half].y, vs[half].y, s);
        moment(gs[half].z, ms[half].z, vs[half].z, s);
        moment(gs[half].w, ms[half].w, vs[half].w, s);
        float *own = w + 4 * half, *update = u + 4 * half;
        own[0] = ws[half].x;
        own[1] = ws[half].y;
        own[2] = ws[half].z;
        own[3] = ws[half].w;
        update[0] = update_of(ms[half].x, vs[half].x, own[0], s);
        update[1] = update_of(ms[half].y, vs[half].y, own[1], s);
        update[2] = update_of(ms[half].z, vs[half].z, own[2], s);
        update[3] = update_of(ms[half].w, vs[half].w, own[3], s);
        if (!WHOLE && i >= total)
            continue;
        put_quad<WHOLE>(m, i, total, ms[half]);
        put_quad<WHOLE>(v, i, total, vs[half]);
    }
}

// Moments of a chunk, and the norms of the weights and of the update of each tensor in it.
__device__ __forceinline__ void moments(int chunk, const float *__restrict__ gradient, float *m, float *v,
                                        const float *weights, const int *__restrict__ starts, Progress *progress,
                                        int tensors, int total, const Settings &s)
{
    const int begin = chunk * CHUNK, end = min(begin + CHUNK, total);
    int tensor = tensor_of(starts, tensors, begin);
    float w[8], u[8];
    float2 sum = make_float2(0.0f, 0.0f);
    if (end == begin + CHUNK && starts[tensor + 1] >= end) {
#pragma unroll 1
        for (int part = 0; part < PARTS; part++) {
            moments_of<true>(begin + part * PART, gradient, m, v, weights, total, s, w, u);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                sum.x = fmaf(w[j], w[j], sum.x);
                sum.y = fmaf(u[j], u[j], sum.y);
            }
        }
        add_norms(sum, progress + tensor, CHUNK);
        return;
    }
#pragma unroll 1
    for (int first = begin; first < end; first += PART) {
        const int last = min(first + PART, end);
        moments_of<false>(first, gradient, m, v, weights, total, s, w, u);
        while (starts[tensor + 1] <= first)
            tensor++;
        for (int t = tensor; t < tensors && starts[t] < last; t++) {
            const int from = max(starts[t], first), to = min(starts[t + 1], last);
            sum = make_float2(0.0f, 0.0f);
#pragma unroll
            for (int j = 0; j < 8; j++) {
                const int i = first + (j / 4 * THREADS + threadIdx.x) * 4 + j % 4;
                if (i >= from && i < to) {
                    sum.x = fmaf(w[j], w[j], sum.x);
                    sum.y = fmaf(u[j], u[j], sum.y);
                }
            }
            add_norms(sum, progress + t, to - from);
        }
    }
}

__device__ __forceinline__ float step_of(const Progress *progress, float rate)
{
    return rate * sqrtf(__fdividef(__ldcg(&progress->weight), __ldcg(&progress->update)));
}

// The update again from the moments, once the norms of all tensors in the chunk are complete.
__device__ __forceinline__ void apply(int chunk, const float *m, const float *v, float *weights,
                                      const int *__restrict__ starts, const Progress *progress, int tensors, int total,
                                      const Settings &s)
{
    const int begin = chunk * CHUNK, end = min(begin + CHUNK, total);
    int tensor = tensor_of(starts, tensors, begin);
    if (threadIdx.x == 0)
        for (int t = tensor; t < tensors && starts[t] < end; t++) {
            const unsigned length = starts[t + 1] - starts[t];
            unsigned done = 0;
            do
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(done) : "l"(&progress[t].done) : "memory");
            while (done < length);
        }
    __syncthreads();
    int until = starts[tensor + 1];
    float step = step_of(progress + tensor, s.rate);
    if (end == begin + CHUNK && until >= end) {
#pragma unroll 1
        for (int part = 0; part < PARTS; part++) {
            float4 ms[2], vs[2], ws[2];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int i = begin + part * PART + (half * THREADS + threadIdx.x) * 4;
                ms[half] = quad_at<true>(m, i, total);
                vs[half] = quad_at<true>(v, i, total);
                ws[half] = quad_at<true>(weights, i, total);
            }
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float4 a = ms[half], b = vs[half], w = ws[half];
                const int i = begin + part * PART + (half * THREADS + threadIdx.x) * 4;
                __stcs(reinterpret_cast<float4 *>(weights + i),
                       make_float4(fmaf(-step, update_of(a.x, b.x, w.x, s), w.x),
                                   fmaf(-step, update_of(a.y, b.y, w.y, s), w.y),
                                   fmaf(-step, update_of(a.z, b.z, w.z, s), w.z),
                                   fmaf(-step, update_of(a.w, b.w, w.w, s), w.w)));
            }
        }
        return;
    }
    for (int i = begin + threadIdx.x; i < end; i += THREADS) {
        while (i >= until) {
            until = starts[++tensor + 1];
            step = step_of(progress + tensor, s.rate);
        }
        const float w = __ldcg(weights + i);
        weights[i] = fmaf(-step, update_of(__ldcg(m + i), __ldcg(v + i), w, s), w);
    }
}

// Resident blocks take tickets. The weights of a chunk are due `lag` tickets of moments later, while its moments and
// weights still lie in the second level of cache; `lag` chunks must hold the longest tensor and two more. A block waits
// only for smaller tickets than its own, and works on its tickets in order, so that the smallest never waits.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    lamb(const float *__restrict__ gradient, float *m, float *v, float *weights, const int *__restrict__ starts,
         Progress *progress, int tensors, int total, int lag, float beta1, float beta2, float eps, float decay,
         float rate)
{
    __shared__ unsigned next[2];
    const Settings settings = {beta1, beta2, eps, decay, rate};
    const int chunks = (total + CHUNK - 1) / CHUNK;
    unsigned *tickets = &progress[tensors].tickets;
    lag = min(lag, chunks);
    if (threadIdx.x == 0)
        next[0] = atomicAdd(tickets, 1u);
    for (int turn = 0;; turn ^= 1) {
        __syncthreads();
        const int ticket = static_cast<int>(next[turn]);
        if (ticket >= 2 * chunks)
            return;
        unsigned ahead = 0;
        if (threadIdx.x == 0)
            ahead = atomicAdd(tickets, 1u);
        const int after = ticket - lag;
        const int both = 2 * (chunks - lag);
        const bool last = after >= both || (after >= 0 && after % 2 == 1);
        const int chunk = after < 0 ? ticket : after >= both ? after - both / 2 : after / 2 + (last ? 0 : lag);
        if (last)
            apply(chunk, m, v, weights, starts, progress, tensors, total, settings);
        else
            moments(chunk, gradient, m, v, weights, starts, progress, tensors, total, settings);
        if (threadIdx.x == 0)
            next[turn ^ 1] = ahead;
    }
}
