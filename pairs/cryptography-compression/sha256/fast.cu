// The message schedule is a window of 16 words in registers, extended while the rounds use it up; all 64 rounds
// are written out, so that constants are immediate and the eight variables change names in place of moving.
// A block stages its messages through shared memory, 16 bytes a thread in order.
#define THREADS 128
#define PITCH 5

__device__ constexpr unsigned k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

__device__ __forceinline__ unsigned rotate(unsigned v, int n)
{
    return __funnelshift_r(v, v, n);
}

__device__ __forceinline__ void compress(unsigned (&h)[8], unsigned (&w)[16])
{
    unsigned v[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = h[i];
#pragma unroll
    for (int i = 0; i < 64; i++) {
        if (i >= 16) {
            const unsigned a = w[(i + 1) % 16], b = w[(i + 14) % 16];
            const unsigned s0 = rotate(a, 7) ^ rotate(a, 18) ^ (a >> 3);
            const unsigned s1 = rotate(b, 17) ^ rotate(b, 19) ^ (b >> 10);
            w[i % 16] += s0 + w[(i + 9) % 16] + s1;
        }
        const unsigned e = v[(68 - i) % 8], f = v[(69 - i) % 8], g = v[(70 - i) % 8];
        const unsigned a = v[(64 - i) % 8], b = v[(65 - i) % 8], c = v[(66 - i) % 8];
        const unsigned s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        const unsigned t1 = v[(71 - i) % 8] + s1 + ((e & f) ^ (~e & g)) + (k[i] + w[i % 16]);
        const unsigned s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        v[(67 - i) % 8] += t1;
        v[(71 - i) % 8] = t1 + s0 + ((a & b) ^ (a & c) ^ (b & c));
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

__device__ __forceinline__ unsigned swapped(unsigned v)
{
    return __byte_perm(v, 0, 0x0123);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    sha256(const uint4 *__restrict__ messages, uint4 *__restrict__ digests, int count, int chunks)
{
    __shared__ uint4 staged[THREADS * PITCH];
    const int first = blockIdx.x * THREADS, m = first + threadIdx.x;
    const int here = min(THREADS, count - first);
    unsigned h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned w[16];
#pragma unroll 1
    for (int c = 0; c < chunks; c++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int quad = i * THREADS + threadIdx.x, owner = quad / 4;
            if (owner < here)
                staged[owner * PITCH + quad % 4] = __ldg(messages + ((size_t)(first + owner) * chunks + c) * 4 + quad % 4);
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint4 part = staged[threadIdx.x * PITCH + i];
            w[4 * i] = swapped(part.x);
            w[4 * i + 1] = swapped(part.y);
            w[4 * i + 2] = swapped(part.z);
            w[4 * i + 3] = swapped(part.w);
        }
        __syncthreads();
        compress(h, w);
    }
#pragma unroll
    for (int i = 0; i < 16; i++)
        w[i] = 0;
    w[0] = 0x80000000u;
    w[15] = chunks * 512;
    compress(h, w);
    if (m < count) {
        digests[2 * m] = make_uint4(swapped(h[0]), swapped(h[1]), swapped(h[2]), swapped(h[3]));
        digests[2 * m + 1] = make_uint4(swapped(h[4]), swapped(h[5]), swapped(h[6]), swapped(h[7]));
    }
}
