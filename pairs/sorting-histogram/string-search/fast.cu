#define THREADS 256
#define CHUNKS 4
#define CHUNK (THREADS * 16)
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

__device__ __forceinline__ uint4 load_sixteen(const unsigned char *__restrict__ text, long long at, int n)
{
    if (at + 16 <= n)
        return __ldg(reinterpret_cast<const uint4 *>(text + at));
    unsigned words[4] = {};
#pragma unroll
    for (int j = 0; j < 16; j++)
        if (at + j < n)
            words[j / 4] |= static_cast<unsigned>(text[at + j]) << 8 * (j % 4);
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// A thread has sixteen places in each of four pieces of the text, all on their way at once. The pattern's first eight
// characters are read once and compared in registers; only where they match is the rest looked at.
extern "C" __global__ void __launch_bounds__(THREADS)
    search(const unsigned char *__restrict__ text, const unsigned char *__restrict__ pattern,
           unsigned char *__restrict__ found, int n, int m)
{
    const long long first = static_cast<long long>(blockIdx.x) * CHUNKS * CHUNK + threadIdx.x * 16;
    const int lane = threadIdx.x % 32;
    uint4 own[CHUNKS], next[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        own[c] = load_sixteen(text, first + c * CHUNK, n);
        next[c] = make_uint4(0, 0, 0, 0);
        if (lane == 31)
            next[c] = load_sixteen(text, first + c * CHUNK + 16, n);
    }
    unsigned mask0, mask1;
    const unsigned want0 = prefix(pattern, 0, m, mask0), want1 = prefix(pattern, 4, m, mask1);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const long long at = first + c * CHUNK;
        if (at - threadIdx.x * 16 >= n)
            break;
        const unsigned after0 = __shfl_down_sync(FULL, own[c].x, 1), after1 = __shfl_down_sync(FULL, own[c].y, 1);
        const unsigned words[6] = {own[c].x, own[c].y, own[c].z, own[c].w, lane == 31 ? next[c].x : after0,
                                   lane == 31 ? next[c].y : after1};
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
}
