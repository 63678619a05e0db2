#include <cuda_bf16.h>

#define THREADS 256
#define QUADS 2
#define CHUNK (THREADS * 4 * QUADS)

typedef __nv_bfloat16 bf16;

struct Settings {
    float beta1, beta2, by_first, by_second, eps;
};

__device__ __forceinline__ void update(float g, float &m, float &v, float &w, float rate, float keep, const Settings &s)
{
    m = fmaf(s.beta1, m, (1.0f - s.beta1) * g);
    v = fmaf(s.beta2, v, (1.0f - s.beta2) * g * g);
    const float step = __fdividef(m * s.by_first, sqrtf(v * s.by_second) + s.eps);
    w = fmaf(w, keep, -rate * step);
}

// The tensor that holds element i: the last one that starts at or before it.
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

// Four elements a thread at a time: the accesses of a warp are whole stretches of 512 bytes, so that no sector is
// written in two halves. All loads of a chunk are under way while the threads look for their tensor.
extern "C" __global__ void __launch_bounds__(THREADS)
    adamw(const bf16 *__restrict__ gradient, float *__restrict__ m, float *__restrict__ v, float *__restrict__ weights,
          bf16 *__restrict__ rounded, const int *__restrict__ starts, const float *__restrict__ rates,
          const float *__restrict__ decays, int tensors, int total, float beta1, float beta2, float first, float second,
          float eps)
{
    const int begin = blockIdx.x * CHUNK + threadIdx.x * 4;
    if (begin >= total)
        return;
    uint2 bits[QUADS];
    float4 a[QUADS], b[QUADS], w[QUADS];
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        const int at = begin + q * THREADS * 4;
        if (at + 4 > total)
            continue;
        bits[q] = __ldcs(reinterpret_cast<const uint2 *>(gradient + at));
        a[q] = __ldcs(reinterpret_cast<const float4 *>(m + at));
        b[q] = __ldcs(reinterpret_cast<const float4 *>(v + at));
        w[q] = __ldcs(reinterpret_cast<const float4 *>(weights + at));
    }
    const Settings settings = {beta1, beta2, 1.0f / first, 1.0f / second, eps};
    int tensor = tensor_of(starts, tensors, blockIdx.x * CHUNK), end = starts[tensor + 1];
    float rate = rates[tensor], keep = 1.0f - rate * decays[tensor];
    // The rate and the decay of element i, which is never left of the last one asked for.
    const auto move_to = [&](int i) {
        if (i < end)
            return;
        while (i >= end)
            end = starts[++tensor + 1];
        rate = rates[tensor];
        keep = 1.0f - rate * decays[tensor];
    };
#pragma unroll
    for (int q = 0; q < QUADS; q++) {
        const int at = begin + q * THREADS * 4;
        if (at + 4 > total) {
            for (int i = at; i < total; i++) {
                move_to(i);
                float one = m[i], two = v[i], weight = weights[i];
                update(__bfloat162float(gradient[i]), one, two, weight, rate, keep, settings);
                m[i] = one;
                v[i] = two;
                weights[i] = weight;
                rounded[i] = __float2bfloat16(weight);
            }
            return;
        }
        const float2 left = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits[q])[0]);
        const float2 right = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits[q])[1]);
        move_to(at);
        update(left.x, a[q].x, b[q].x, w[q].x, rate, keep, settings);
        move_to(at + 1);
        update(left.y, a[q].y, b[q].y, w[q].y, rate, keep, settings);
        move_to(at + 2);
        update(right.x, a[q].z, b[q].z, w[q].z, rate, keep, settings);
        move_to(at + 3);
        update(right.y, a[q].w, b[q].w, w[q].w, rate, keep, settings);
        __stcs(reinterpret_cast<float4 *>(m + at), a[q]);
        __stcs(reinterpret_cast<float4 *>(v + at), b[q]);
        __stcs(reinterpret_cast<float4 *>(weights + at), w[q]);
        uint2 result;
        reinterpret_cast<__nv_bfloat162 *>(&result)[0] = __floats2bfloat162_rn(w[q].x, w[q].y);
        reinterpret_cast<__nv_bfloat162 *>(&result)[1] = __floats2bfloat162_rn(w[q].z, w[q].w);
        __stcs(reinterpret_cast<uint2 *>(rounded + at), result);
    }
}
