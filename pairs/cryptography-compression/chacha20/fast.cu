// A warp makes 32 blocks of key stream in registers, one a lane, and turns them in shared memory so that text is
// read and written 16 bytes a lane in order. Rows of 20 words keep 16-byte accesses in different banks.
#define WARPS 4
#define PITCH 20

typedef unsigned char byte;

__device__ __forceinline__ void quarter_round(unsigned &a, unsigned &b, unsigned &c, unsigned &d)
{
    a += b;
    d = __byte_perm(d ^ a, 0, 0x1032);
    c += d;
    b = __funnelshift_l(b ^ c, b ^ c, 12);
    a += b;
    d = __byte_perm(d ^ a, 0, 0x2103);
    c += d;
    b = __funnelshift_l(b ^ c, b ^ c, 7);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    chacha20(const byte *__restrict__ plain, byte *__restrict__ cipher, const unsigned *__restrict__ key,
             const unsigned *__restrict__ nonce, int n)
{
    __shared__ __align__(16) unsigned stream[WARPS][32][PITCH];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = (blockIdx.x * WARPS + warp) * 32;
    if ((long long)first * 64 >= n)
        return;
    unsigned base[16], s[16];
    base[0] = 0x61707865;
    base[1] = 0x3320646e;
    base[2] = 0x79622d32;
    base[3] = 0x6b206574;
#pragma unroll
    for (int i = 0; i < 8; i++)
        base[4 + i] = key[i];
    base[12] = first + lane + 1;
#pragma unroll
    for (int i = 0; i < 3; i++)
        base[13 + i] = nonce[i];
#pragma unroll
    for (int i = 0; i < 16; i++)
        s[i] = base[i];
#pragma unroll
    for (int round = 0; round < 10; round++) {
        quarter_round(s[0], s[4], s[8], s[12]);
        quarter_round(s[1], s[5], s[9], s[13]);
        quarter_round(s[2], s[6], s[10], s[14]);
        quarter_round(s[3], s[7], s[11], s[15]);
        quarter_round(s[0], s[5], s[10], s[15]);
        quarter_round(s[1], s[6], s[11], s[12]);
        quarter_round(s[2], s[7], s[8], s[13]);
        quarter_round(s[3], s[4], s[9], s[14]);
    }
    uint4 *own = reinterpret_cast<uint4 *>(stream[warp][lane]);
#pragma unroll
    for (int i = 0; i < 4; i++)
        own[i] = make_uint4(s[4 * i] + base[4 * i], s[4 * i + 1] + base[4 * i + 1], s[4 * i + 2] + base[4 * i + 2],
                            s[4 * i + 3] + base[4 * i + 3]);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int quad = i * 32 + lane;
        const size_t at = (size_t)first * 64 + 16 * quad;
        const uint4 k = reinterpret_cast<const uint4 *>(stream[warp][quad / 4])[quad % 4];
        if (at + 16 <= n) {
            uint4 text = __ldg(reinterpret_cast<const uint4 *>(plain + at));
            text.x ^= k.x;
            text.y ^= k.y;
            text.z ^= k.z;
            text.w ^= k.w;
            *reinterpret_cast<uint4 *>(cipher + at) = text;
        } else {
            const unsigned words[4] = {k.x, k.y, k.z, k.w};
#pragma unroll
            for (int b = 0; b < 16; b++)
                if (at + b < n)
                    cipher[at + b] = plain[at + b] ^ (byte)(words[b / 4] >> (8 * (b % 4)));
        }
    }
}
