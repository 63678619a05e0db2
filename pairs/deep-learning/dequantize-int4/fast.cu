#include <cuda_fp16.h>

#define GROUP 128

__device__ __forceinline__ unsigned bits_of(half2 value) { return *reinterpret_cast<unsigned *>(&value); }

// A code in the low bits of the half 1024 reads as 1024 + code: no conversion of integers is needed.
__device__ __forceinline__ half2 codes(unsigned word, int at)
{
    const unsigned bits = (word >> 4 * at & 0x000f000fu) | 0x64006400u;
    return *reinterpret_cast<const half2 *>(&bits);
}

// Eight codes of a word as eight halves in order.
__device__ __forceinline__ uint4 eight(unsigned word, half2 zero, half2 scale)
{
    unsigned value[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
        value[j] = bits_of(__hmul2(__hsub2(codes(word, j), zero), scale));
    return make_uint4(__byte_perm(value[0], value[1], 0x5410), __byte_perm(value[2], value[3], 0x5410),
                      __byte_perm(value[0], value[1], 0x7632), __byte_perm(value[2], value[3], 0x7632));
}

// A warp's lanes store neighbouring sixteen bytes: each takes a word, not four in a row.
extern "C" __global__ void __launch_bounds__(256)
    dequantize(const unsigned *__restrict__ packed, const half *__restrict__ scales,
               const unsigned char *__restrict__ zeros, uint4 *__restrict__ out, int words)
{
    const int first = blockIdx.x * 1024 + threadIdx.x;
    unsigned own[4];
    half2 scale[4], zero[4];
#pragma unroll
    for (int u = 0; u < 4; u++) {
        const int i = first + 256 * u;
        if (i >= words)
            continue;
        own[u] = __ldcs(packed + i);
        scale[u] = __half2half2(scales[i / (GROUP / 8)]);
        zero[u] = __half2half2(__ushort_as_half(static_cast<unsigned short>(0x6400 | zeros[i / (GROUP / 8)])));
    }
#pragma unroll
    for (int u = 0; u < 4; u++)
        if (first + 256 * u < words)
            __stcs(out + first + 256 * u, eight(own[u], zero[u], scale[u]));
}
