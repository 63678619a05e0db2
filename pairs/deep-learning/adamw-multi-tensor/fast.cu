#include <cuda_bf16.h>

#define THREADS 256
#define CHUNK (THREADS * 8)

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

// Tensors lie end to end, so a thread's eight elements are aligned whatever tensor they belong to.
extern "C" __global__ void __launch_bounds__(THREADS)
    adamw(const bf16 *__restrict__ gradient, float *__restrict__ m, float *__restrict__ v, float *__restrict__ weights,
          bf16 *__restrict__ rounded, const int *__restrict__ starts, const float *__restrict__ rates,
          const float *__restrict__ decays, int tensors, int total, float beta1, float beta2, float first, float second,
          float eps)
{
    const Settings settings = {beta1, beta2, 1.0f / first, 1.0f / second, eps};
    const int begin = blockIdx.x * CHUNK + threadIdx.x * 8;
    if (begin >= total)
        return;
    int tensor = tensor_of(starts, tensors, blockIdx.x * CHUNK);
    int end = starts[tensor + 1];
    while (begin >= end)
        end = starts[++tensor + 1];
    float rate = rates[tensor], keep = 1.0f - rate * decays[tensor];
    if (begin + 8 > total) {
        for (int i = begin; i < total; i++) {
            while (i >= end) {
                end = starts[++tensor + 1];
                rate = rates[tensor];
                keep = 1.0f - rate * decays[tensor];
            }
            float a = m[i], b = v[i], w = weights[i];
            update(__bfloat162float(gradient[i]), a, b, w, rate, keep, settings);
            m[i] = a;
            v[i] = b;
            weights[i] = w;
            rounded[i] = __float2bfloat16(w);
        }
        return;
    }
    const uint4 bits = __ldcs(reinterpret_cast<const uint4 *>(gradient + begin));
    float a[8], b[8], w[8];
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
        *reinterpret_cast<float4 *>(a + j) = __ldcs(reinterpret_cast<const float4 *>(m + begin + j));
        *reinterpret_cast<float4 *>(b + j) = __ldcs(reinterpret_cast<const float4 *>(v + begin + j));
        *reinterpret_cast<float4 *>(w + j) = __ldcs(reinterpret_cast<const float4 *>(weights + begin + j));
    }
    uint4 result;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        while (begin + j >= end) {
            end = starts[++tensor + 1];
            rate = rates[tensor];
            keep = 1.0f - rate * decays[tensor];
        }
        const __nv_bfloat162 pair = reinterpret_cast<const __nv_bfloat162 *>(&bits)[j / 2];
        update(j % 2 ? __high2float(pair) : __low2float(pair), a[j], b[j], w[j], rate, keep, settings);
        if (j % 2)
            reinterpret_cast<__nv_bfloat162 *>(&result)[j / 2] = __floats2bfloat162_rn(w[j - 1], w[j]);
    }
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
        __stcs(reinterpret_cast<float4 *>(m + begin + j), *reinterpret_cast<float4 *>(a + j));
        __stcs(reinterpret_cast<float4 *>(v + begin + j), *reinterpret_cast<float4 *>(b + j));
        __stcs(reinterpret_cast<float4 *>(weights + begin + j), *reinterpret_cast<float4 *>(w + j));
    }
    __stcs(reinterpret_cast<uint4 *>(rounded + begin), result);
}
