#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNK (THREADS * 8)
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
__device__ __forceinline__ float4 quad_at(const float *from, int i, int total)
{
    if (i + 4 <= total)
        return __ldcg(reinterpret_cast<const float4 *>(from + i));
    return make_float4(__ldcg(from + i), i + 1 < total ? __ldcg(from + i + 1) : 0.0f,
                       i + 2 < total ? __ldcg(from + i + 2) : 0.0f, 0.0f);
}

__device__ __forceinline__ void put_quad(float *to, int i, int total, const float (&quad)[4])
{
    if (i + 4 <= total)
        __stcg(reinterpret_cast<float4 *>(to + i), make_float4(quad[0], quad[1], quad[2], quad[3]));
    else
        for (int j = 0; i + j < total; j++)
            to[i + j] = quad[j];
}

// Moments of a chunk, and the norms of the weights and of the update of each tensor in it.
__device__ __forceinline__ void moments(int chunk, const float *__restrict__ gradient, float *m, float *v,
                                        const float *weights, const int *__restrict__ starts, Progress *progress,
                                        int tensors, int total, const Settings &s)
{
    const int begin = chunk * CHUNK, end = min(begin + CHUNK, total);
    float4 gs[2], ms[2], vs[2], ws[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = begin + (half * THREADS + threadIdx.x) * 4;
        if (i >= total)
            continue;
        gs[half] = i + 4 <= total ? __ldcs(reinterpret_cast<const float4 *>(gradient + i)) : quad_at(gradient, i, total);
        ms[half] = quad_at(m, i, total);
        vs[half] = quad_at(v, i, total);
        ws[half] = quad_at(weights, i, total);
    }
    int tensor = tensor_of(starts, tensors, begin);
    float w[2][4] = {}, u[2][4] = {};
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = begin + (half * THREADS + threadIdx.x) * 4;
        if (i >= total)
            continue;
        float a[4] = {ms[half].x, ms[half].y, ms[half].z, ms[half].w};
        float b[4] = {vs[half].x, vs[half].y, vs[half].z, vs[half].w};
        const float g[4] = {gs[half].x, gs[half].y, gs[half].z, gs[half].w};
        const float own[4] = {ws[half].x, ws[half].y, ws[half].z, ws[half].w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            a[j] = fmaf(s.beta1, a[j], (1.0f - s.beta1) * g[j]);
            b[j] = fmaf(s.beta2, b[j], (1.0f - s.beta2) * g[j] * g[j]);
            w[half][j] = own[j];
            u[half][j] = i + j < total ? update_of(a[j], b[j], own[j], s) : 0.0f;
        }
        put_quad(m, i, total, a);
        put_quad(v, i, total, b);
    }
    for (; tensor < tensors && starts[tensor] < end; tensor++) {
        const int from = max(starts[tensor], begin), to = min(starts[tensor + 1], end);
        float2 sum = make_float2(0.0f, 0.0f);
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int i = begin + (half * THREADS + threadIdx.x) * 4 + j;
                if (i >= from && i < to) {
                    sum.x = fmaf(w[half][j], w[half][j], sum.x);
                    sum.y = fmaf(u[half][j], u[half][j], sum.y);
                }
            }
        add_norms(sum, progress + tensor, to - from);
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
    float4 ms[2], vs[2], ws[2];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = begin + (half * THREADS + threadIdx.x) * 4;
        if (i >= total)
            continue;
        ms[half] = quad_at(m, i, total);
        vs[half] = quad_at(v, i, total);
        ws[half] = quad_at(weights, i, total);
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int i = begin + (half * THREADS + threadIdx.x) * 4;
        if (i >= total)
            continue;
        const float a[4] = {ms[half].x, ms[half].y, ms[half].z, ms[half].w};
        const float b[4] = {vs[half].x, vs[half].y, vs[half].z, vs[half].w};
        float w[4] = {ws[half].x, ws[half].y, ws[half].z, ws[half].w};
        while (i >= starts[tensor + 1])
            tensor++;
        int until = starts[tensor + 1];
        float step = step_of(progress + tensor, s.rate);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (i + j >= total)
                break;
            while (i + j >= until) {
                until = starts[++tensor + 1];
                step = step_of(progress + tensor, s.rate);
            }
            w[j] = fmaf(-step, update_of(a[j], b[j], w[j], s), w[j]);
        }
        if (i + 4 <= total)
            __stcs(reinterpret_cast<float4 *>(weights + i), make_float4(w[0], w[1], w[2], w[3]));
        else
            put_quad(weights, i, total, w);
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
