#define THREADS 256
#define FULL 0xffffffffu

__device__ __forceinline__ bool rest_matches(const unsigned char *__restrict__ text,
                                             const unsigned char *__restrict__ pattern, int m)
{
    for (int j = 8; j < m; j++)
        if (text[j] != pattern[j])
            return false;
    return true;
}

__device__ __forceinline__ unsigned prefix(const unsigned char *__restrict__ pattern, int from, int m, unsigned &mask)
{
    unsigned word = 0;
    mask = 0;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        if (from + j < m) {
            word |= static_cast<unsigned>(pattern[from + j]) << 8 * j;
            mask |= 255u << 8 * j;
        }
    }
    return word;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    search(const unsigned char *__restrict__ text, const unsigned char *__restrict__ pattern,
           unsigned char *__restrict__ found, int n, int m)
{
    const long long at = (static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x) * 16;
    unsigned mask0, mask1, words[6] = {};
    const unsigned want0 = prefix(pattern, 0, m, mask0), want1 = prefix(pattern, 4, m, mask1);
    if (at + 16 <= n) {
        const uint4 own = *reinterpret_cast<const uint4 *>(text + at);
        words[0] = own.x, words[1] = own.y, words[2] = own.z, words[3] = own.w;
    } else {
        for (int j = 0; j < 16; j++)
            if (at + j < n)
                words[j / 4] |= static_cast<unsigned>(text[at + j]) << 8 * (j % 4);
    }
    words[4] = __shfl_down_sync(FULL, words[0], 1);
    words[5] = __shfl_down_sync(FULL, words[1], 1);
    if (threadIdx.x % 32 == 31) {
        words[4] = words[5] = 0;
        if (at + 24 <= n) {
            const uint2 next = *reinterpret_cast<const uint2 *>(text + at + 16);
            words[4] = next.x, words[5] = next.y;
        } else {
            for (int j = 16; j < 24; j++)
                if (at + j < n)
                    words[j / 4] |= static_cast<unsigned>(text[at + j]) << 8 * (j % 4);
        }
    }
    unsigned hits = 0;
#pragma unroll
    for (int p = 0; p < 16; p++) {
        const unsigned low = __funnelshift_r(words[p / 4], words[p / 4 + 1], 8 * (p % 4));
        const unsigned high = __funnelshift_r(words[p / 4 + 1], p < 12 ? words[p / 4 + 2] : words[5], 8 * (p % 4));
        if (((low ^ want0) & mask0) == 0 && ((high ^ want1) & mask1) == 0)
            hits |= 1u << p;
    }
    unsigned left = hits;
    while (left) {
        const int p = __ffs(left) - 1;
        left &= left - 1;
        if (at + p + m > n || !rest_matches(text + at + p, pattern, m))
            hits &= ~(1u << p);
    }
    if (at + 16 <= n) {
        uint4 flags;
        flags.x = (hits & 15) * 0x00204081u & 0x01010101u;
        flags.y = (hits >> 4 & 15) * 0x00204081u & 0x01010101u;
        flags.z = (hits >> 8 & 15) * 0x00204081u & 0x01010101u;
        flags.w = (hits >> 12 & 15) * 0x00204081u & 0x01010101u;
        __stcs(reinterpret_cast<uint4 *>(found + at), flags);
    } else {
        for (int j = 0; j < 16; j++)
            if (at + j < n)
                found[at + j] = hits >> j & 1;
    }
}
