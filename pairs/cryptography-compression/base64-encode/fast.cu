// A thread turns twelve bytes into sixteen characters, four at a time in one register: the letter's code is the
// value plus an offset, and the offset changes where the value passes 25, 51, 61 and 62.
#define THREADS 256

__device__ __forceinline__ unsigned above(unsigned values, unsigned limit)
{
    return (values + (127u - limit) * 0x01010101u) >> 7 & 0x01010101u;
}

// `bits` holds three bytes, the first of them highest.
__device__ __forceinline__ unsigned letters(unsigned bits)
{
    const unsigned v = (bits >> 18 & 63u) | (bits >> 4 & 0x3f00u) | (bits << 10 & 0x3f0000u) | (bits << 24 & 0x3f000000u);
    return v + 65u * 0x01010101u + 6u * above(v, 25) - 75u * above(v, 51) - 15u * above(v, 61) + 3u * above(v, 62);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    encode(const unsigned char *__restrict__ data, unsigned char *__restrict__ text, int n)
{
    const int i = 12 * (blockIdx.x * THREADS + threadIdx.x);
    if (i + 12 <= n) {
        const unsigned *words = reinterpret_cast<const unsigned *>(data + i);
        const unsigned a = __ldg(words), b = __ldg(words + 1), c = __ldg(words + 2);
        uint4 out;
        out.x = letters(__byte_perm(a, 0, 0x4012));
        out.y = letters(__byte_perm(a, b, 0x0345) & 0xffffffu);
        out.z = letters(__byte_perm(b, c, 0x0234) & 0xffffffu);
        out.w = letters(__byte_perm(c, 0, 0x4123));
        *reinterpret_cast<uint4 *>(text + (size_t)i / 3 * 4) = out;
        return;
    }
    for (int k = i; k < n; k += 3) {
        const int left = n - k;
        const unsigned bits = data[k] << 16 | (left > 1 ? data[k + 1] << 8 : 0) | (left > 2 ? data[k + 2] : 0);
        unsigned four = letters(bits);
        if (left < 3)
            four = (four & 0x00ffffffu) | (unsigned)'=' << 24;
        if (left < 2)
            four = (four & 0xff00ffffu) | (unsigned)'=' << 16;
        *reinterpret_cast<unsigned *>(text + (size_t)k / 3 * 4) = four;
    }
}
