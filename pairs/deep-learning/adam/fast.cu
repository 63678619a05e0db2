#define THREADS 256

struct Rates {
    float rate, shrink, beta1, beta2, first, second, eps;
};

__device__ __forceinline__ void update(float &weight, float &m, float &v, float gradient, const Rates &r)
{
    m = fmaf(r.beta1, m, (1.0f - r.beta1) * gradient);
    v = fmaf(r.beta2, v, (1.0f - r.beta2) * gradient * gradient);
    weight = fmaf(-r.rate * r.shrink, weight, weight);
    weight -= __fdividef(r.rate * m * r.first, sqrtf(v * r.second) + r.eps);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    adam(const float *__restrict__ gradient, float *__restrict__ m, float *__restrict__ v, float *__restrict__ weights,
         int n, float rate, float shrink, float beta1, float beta2, float first, float second, float eps)
{
    const Rates rates = {rate, shrink, beta1, beta2, 1.0f / first, 1.0f / second, eps};
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n / 4) {
        const float4 g = __ldcs(reinterpret_cast<const float4 *>(gradient) + i);
        float4 p = __ldcs(reinterpret_cast<const float4 *>(m) + i);
        float4 q = __ldcs(reinterpret_cast<const float4 *>(v) + i);
        float4 w = __ldcs(reinterpret_cast<const float4 *>(weights) + i);
        update(w.x, p.x, q.x, g.x, rates);
        update(w.y, p.y, q.y, g.y, rates);
        update(w.z, p.z, q.z, g.z, rates);
        update(w.w, p.w, q.w, g.w, rates);
        __stcs(reinterpret_cast<float4 *>(m) + i, p);
        __stcs(reinterpret_cast<float4 *>(v) + i, q);
        __stcs(reinterpret_cast<float4 *>(weights) + i, w);
    }
    if (blockIdx.x == 0 && threadIdx.x < n % 4) {
        const int at = n - 1 - threadIdx.x;
        update(weights[at], m[at], v[at], gradient[at], rates);
    }
}
