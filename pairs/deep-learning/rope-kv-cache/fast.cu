#include <cuda_bf16.h>

#define THREADS 256

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float2 at(const uint4 &bits, int j)
{
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162 *>(&bits)[j]);
}

// Eight pairs of a head: `first` and `second` are turned in place.
__device__ __forceinline__ void turn(uint4 &first, uint4 &second, const float4 *cos, const float4 *sin)
{
    const float4 c[2] = {cos[0], cos[1]}, s[2] = {sin[0], sin[1]};
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float2 x = at(first, j), y = at(second, j);
        const float cx = j % 2 ? c[j / 2].z : c[j / 2].x, cy = j % 2 ? c[j / 2].w : c[j / 2].y;
        const float sx = j % 2 ? s[j / 2].z : s[j / 2].x, sy = j % 2 ? s[j / 2].w : s[j / 2].y;
        reinterpret_cast<__nv_bfloat162 *>(&first)[j] =
            __floats2bfloat162_rn(x.x * cx - y.x * sx, x.y * cy - y.y * sy);
        reinterpret_cast<__nv_bfloat162 *>(&second)[j] =
            __floats2bfloat162_rn(y.x * cx + x.x * sx, y.y * cy + x.y * sy);
    }
}

__device__ __forceinline__ void turn_one(bf16 *first, bf16 *second, float c, float s)
{
    const float x = __bfloat162float(*first), y = __bfloat162float(*second);
    *first = __float2bfloat16(x * c - y * s);
    *second = __float2bfloat16(y * c + x * s);
}

__device__ __forceinline__ void token_any(bf16 *__restrict__ q, bf16 *__restrict__ k, const bf16 *__restrict__ v,
                                          const float *__restrict__ cos, const float *__restrict__ sin,
                                          bf16 *__restrict__ keys, bf16 *__restrict__ values, int heads, int kv_heads,
                                          int half_dim)
{
    for (int i = threadIdx.x; i < (heads + kv_heads) * half_dim; i += THREADS) {
        const int head = i / half_dim, pair = i % half_dim;
        bf16 *from = (head < heads ? q + head * 2 * half_dim : k + (head - heads) * 2 * half_dim) + pair;
        turn_one(from, from + half_dim, cos[pair], sin[pair]);
        if (head >= heads) {
            bf16 *to = keys + (head - heads) * 2 * half_dim + pair;
            to[0] = from[0];
            to[half_dim] = from[half_dim];
        }
    }
    for (int i = threadIdx.x; i < kv_heads * 2 * half_dim; i += THREADS)
        values[i] = v[i];
}

// A block a token: queries and keys are turned, keys and values go to the token's slot from registers.
extern "C" __global__ void __launch_bounds__(THREADS)
    rope_cache(bf16 *__restrict__ q, bf16 *__restrict__ k, const bf16 *__restrict__ v, const float *__restrict__ cos,
               const float *__restrict__ sin, const int *__restrict__ slots, bf16 *__restrict__ keys,
               bf16 *__restrict__ values, int heads, int kv_heads, int half_dim)
{
    const size_t token = blockIdx.x, width = static_cast<size_t>(kv_heads) * 2 * half_dim, slot = slots[token];
    q += token * heads * 2 * half_dim;
    k += token * width;
    v += token * width;
    cos += token * half_dim;
    sin += token * half_dim;
    keys += slot * width;
    values += slot * width;
    if (half_dim % 8 != 0) {
        token_any(q, k, v, cos, sin, keys, values, heads, kv_heads, half_dim);
        return;
    }
    const int eights = half_dim / 8;
    for (int i = threadIdx.x; i < (heads + kv_heads) * eights; i += THREADS) {
        const int head = i / eights, part = i % eights;
        const bool query = head < heads;
        const int at = (query ? head : head - heads) * 2 * eights + part;
        uint4 *from = reinterpret_cast<uint4 *>(query ? q : k) + at;
        uint4 first = from[0], second = from[eights];
        turn(first, second, reinterpret_cast<const float4 *>(cos) + 2 * part,
             reinterpret_cast<const float4 *>(sin) + 2 * part);
        __stcs(from, first);
        __stcs(from + eights, second);
        if (!query) {
            __stcs(reinterpret_cast<uint4 *>(keys) + at, first);
            __stcs(reinterpret_cast<uint4 *>(keys) + at + eights, second);
        }
    }
    for (int i = threadIdx.x; i < kv_heads * 2 * eights; i += THREADS)
        __stcs(reinterpret_cast<uint4 *>(values) + i, __ldcs(reinterpret_cast<const uint4 *>(v) + i));
}
