typedef unsigned char byte;

__device__ unsigned load_word(const byte *p)
{
    return p[0] | p[1] << 8 | p[2] << 16 | (unsigned)p[3] << 24;
}

__device__ unsigned rotate(unsigned v, int n)
{
    return v << n | v >> (32 - n);
}

__device__ void quarter_round(unsigned *s, int a, int b, int c, int d)
{
    s[a] += s[b];
    s[d] = rotate(s[d] ^ s[a], 16);
    s[c] += s[d];
    s[b] = rotate(s[b] ^ s[c], 12);
    s[a] += s[b];
    s[d] = rotate(s[d] ^ s[a], 8);
    s[c] += s[d];
    s[b] = rotate(s[b] ^ s[c], 7);
}

// One thread a block of 64 bytes (RFC 8439, counter from 1).
extern "C" __global__ void chacha20(const byte *plain, byte *cipher, const byte *key, const byte *nonce, int n)
{
    int block = blockIdx.x * blockDim.x + threadIdx.x;
    int start = block * 64;
    if (start >= n)
        return;
    unsigned initial[16], state[16];
    initial[0] = 0x61707865;
    initial[1] = 0x3320646e;
    initial[2] = 0x79622d32;
    initial[3] = 0x6b206574;
    for (int i = 0; i < 8; i++)
        initial[4 + i] = load_word(key + 4 * i);
    initial[12] = block + 1;
    for (int i = 0; i < 3; i++)
        initial[13 + i] = load_word(nonce + 4 * i);
    for (int i = 0; i < 16; i++)
        state[i] = initial[i];
    for (int round = 0; round < 10; round++) {
        quarter_round(state, 0, 4, 8, 12);
        quarter_round(state, 1, 5, 9, 13);
        quarter_round(state, 2, 6, 10, 14);
        quarter_round(state, 3, 7, 11, 15);
        quarter_round(state, 0, 5, 10, 15);
        quarter_round(state, 1, 6, 11, 12);
        quarter_round(state, 2, 7, 8, 13);
        quarter_round(state, 3, 4, 9, 14);
    }
    for (int i = 0; i < 64 && start + i < n; i++) {
        unsigned word = state[i / 4] + initial[i / 4];
        cipher[start + i] = plain[start + i] ^ (byte)(word >> (8 * (i % 4)));
    }
}
