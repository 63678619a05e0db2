#include <cuda_bf16.h>

#define STATES 16
#define THREADS 128
#define WARPS (THREADS / 32)
#define ITEMS 8
#define TILE (THREADS * ITEMS)
#define LOG2E 1.4426950408889634f
#define ALL 0xffffffffu

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// state -> factor * state + term
struct Step {
    float factor, term;
};

__device__ __forceinline__ Step then(const Step &first, const Step &second)
{
    return {first.factor * second.factor, fmaf(second.factor, first.term, second.term)};
}

__device__ __forceinline__ void load(const bf16 *__restrict__ from, int t, int length, float (&to)[ITEMS])
{
    if (length % 8 == 0) {
        const uint4 bits = t < length ? *reinterpret_cast<const uint4 *>(from + t) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float2 pair = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
            to[2 * j] = pair.x;
            to[2 * j + 1] = pair.y;
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < ITEMS; j++)
        to[j] = t + j < length ? __bfloat162float(from[t + j]) : 0.0f;
}

__device__ __forceinline__ Step inclusive(Step step)
{
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const Step other = {__shfl_up_sync(ALL, step.factor, offset), __shfl_up_sync(ALL, step.term, offset)};
        if (threadIdx.x % 32 >= offset)
            step = then(other, step);
    }
    return step;
}

// A block a channel: steps of the recurrence compose, so time is scanned in parallel, one state after the other. The factor
// of a thread's steps together is one power of two of their sum.
extern "C" __global__ void __launch_bounds__(THREADS, 6)
    selective_scan(const bf16 *__restrict__ u, const bf16 *__restrict__ delta, const float *__restrict__ a,
                   const bf16 *__restrict__ b, const bf16 *__restrict__ c, const float *__restrict__ skip,
                   bf16 *__restrict__ y, int channels, int length)
{
    __shared__ Step parts[STATES][WARPS];
    __shared__ float carry[STATES];
    const int channel = blockIdx.x % channels, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const size_t own = static_cast<size_t>(blockIdx.x) * length;
    const size_t shared_row = static_cast<size_t>(blockIdx.x / channels) * STATES * length;
    const float direct = skip[channel];
    if (threadIdx.x < STATES)
        carry[threadIdx.x] = 0.0f;
    for (int tile = 0; tile < length; tile += TILE) {
        const int t = tile + threadIdx.x * ITEMS;
        float input[ITEMS], step[ITEMS], sum[ITEMS], all_steps = 0.0f;
        load(u + own, t, length, input);
        load(delta + own, t, length, step);
#pragma unroll
        for (int j = 0; j < ITEMS; j++) {
            step[j] = step[j] > 20.0f ? step[j] : log1pf(__expf(step[j]));
            step[j] = t + j < length ? step[j] : 0.0f;
            sum[j] = direct * input[j];
            input[j] *= step[j];
            all_steps += step[j];
        }
        for (int n = 0; n < STATES; n++) {
            const float rate = a[channel * STATES + n] * LOG2E;
            float factor[ITEMS], term[ITEMS], out[ITEMS];
            load(b + shared_row + static_cast<size_t>(n) * length, t, length, term);
            load(c + shared_row + static_cast<size_t>(n) * length, t, length, out);
            Step mine = {power_of_two(all_steps * rate), 0.0f};
#pragma unroll
            for (int j = 0; j < ITEMS; j++) {
                factor[j] = power_of_two(step[j] * rate);
                term[j] *= input[j];
                mine.term = fmaf(factor[j], mine.term, term[j]);
            }
            const Step upto = inclusive(mine);
            if (lane == 31)
                parts[n][warp] = upto;
            Step before = {__shfl_up_sync(ALL, upto.factor, 1), __shfl_up_sync(ALL, upto.term, 1)};
            if (lane == 0)
                before = {1.0f, 0.0f};
            __syncthreads();
            float state = carry[n];
#pragma unroll
            for (int w = 0; w < WARPS - 1; w++)
                if (w < warp)
                    state = fmaf(parts[n][w].factor, state, parts[n][w].term);
            state = fmaf(before.factor, state, before.term);
#pragma unroll
            for (int j = 0; j < ITEMS; j++) {
                state = fmaf(factor[j], state, term[j]);
                sum[j] = fmaf(state, out[j], sum[j]);
            }
        }
        __syncthreads();
        if (threadIdx.x < STATES) {
            float state = carry[threadIdx.x];
#pragma unroll
            for (int w = 0; w < WARPS; w++)
                state = fmaf(parts[threadIdx.x][w].factor, state, parts[threadIdx.x][w].term);
            carry[threadIdx.x] = state;
        }
        if (length % 8 == 0) {
            uint4 result;
#pragma unroll
            for (int j = 0; j < 4; j++)
                reinterpret_cast<__nv_bfloat162 *>(&result)[j] = __floats2bfloat162_rn(sum[2 * j], sum[2 * j + 1]);
            if (t < length)
                *reinterpret_cast<uint4 *>(y + own + t) = result;
        } else {
#pragma unroll
            for (int j = 0; j < ITEMS; j++)
                if (t + j < length)
                    y[own + t + j] = __float2bfloat16(sum[j]);
        }
        __syncthreads();
    }
}
