#include <cuda_bf16.h>

#define DIM 128
#define HALF (DIM / 2)
#define THREADS 128

__device__ __forceinline__ void rotate(unsigned &x, unsigned &y, float2 c, float2 s)
{
    const float2 p = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162 *>(&x));
    const float2 q = __bfloat1622float2(*reinterpret_cast<__nv_bfloat162 *>(&y));
    const __nv_bfloat162 first = __floats2bfloat162_rn(p.x * c.x - q.x * s.x, p.y * c.y - q.y * s.y);
    const __nv_bfloat162 second = __floats2bfloat162_rn(q.x * c.x + p.x * s.x, q.y * c.y + p.y * s.y);
    x = *reinterpret_cast<const unsigned *>(&first);
    y = *reinterpret_cast<const unsigned *>(&second);
}

// A thread has eight features of either half of a head's key, with their angles, and the same of its value: 16
// bytes a load and store, and no copy of the rotated keys in between.
extern "C" __global__ void __launch_bounds__(THREADS)
    write_cache(const uint4 *__restrict__ k, const uint4 *__restrict__ v, const int *__restrict__ positions,
                const int *__restrict__ slots, const float4 *__restrict__ cos_table,
                const float4 *__restrict__ sin_table, uint4 *__restrict__ k_cache, uint4 *__restrict__ v_cache,
                int tokens, int heads)
{
    const int at = blockIdx.x * THREADS + threadIdx.x, chunk = at % 8, head = at / 8 % heads, token = at / 8 / heads;
    if (token >= tokens)
        return;
    const size_t from = (static_cast<size_t>(token) * heads + head) * (DIM / 8) + chunk;
    const size_t to = (static_cast<size_t>(slots[token]) * heads + head) * (DIM / 8) + chunk;
    uint4 x = __ldcs(k + from), y = __ldcs(k + from + 8);
    const uint4 first = __ldcs(v + from), second = __ldcs(v + from + 8);
    const size_t angle = static_cast<size_t>(positions[token]) * (HALF / 4) + chunk * 2;
    const float4 c[2] = {__ldg(cos_table + angle), __ldg(cos_table + angle + 1)};
    const float4 s[2] = {__ldg(sin_table + angle), __ldg(sin_table + angle + 1)};
    v_cache[to] = first;
    v_cache[to + 8] = second;
    rotate(x.x, y.x, make_float2(c[0].x, c[0].y), make_float2(s[0].x, s[0].y));
    rotate(x.y, y.y, make_float2(c[0].z, c[0].w), make_float2(s[0].z, s[0].w));
    rotate(x.z, y.z, make_float2(c[1].x, c[1].y), make_float2(s[1].x, s[1].y));
    rotate(x.w, y.w, make_float2(c[1].z, c[1].w), make_float2(s[1].z, s[1].w));
    k_cache[to] = x;
    k_cache[to + 8] = y;
}
