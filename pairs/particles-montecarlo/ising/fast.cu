// Eight sites of a row a thread, four of them of the colour whose turn it is. Neighbours that point up are
// counted for all eight at once, a byte each; chances of acceptance lie in shared memory.
#define THREADS 128

__device__ __forceinline__ unsigned random_word(unsigned salt, unsigned site)
{
    unsigned h = site ^ salt;
    h ^= h >> 16;
    h *= 0x7FEB352Du;
    h ^= h >> 15;
    h *= 0x846CA68Bu;
    h ^= h >> 16;
    return h;
}

__device__ __forceinline__ unsigned four_sites(unsigned here, unsigned up, int x, int edges, int offset, int width,
                                               unsigned site, unsigned salt, const unsigned *accept)
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int k = 2 * i + offset;
        const int around = 4 - edges - (x + k == 0) - (x + k == width - 1);
        const int sum = 2 * (int)(up >> (8 * k) & 7u) - around;
        const int field = here >> (8 * k) & 1u ? sum : -sum;
        if (random_word(salt, site + k) < accept[field + 4])
            here ^= 1u << (8 * k);
    }
    return here;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    half_sweep(unsigned char *__restrict__ spins, const unsigned *__restrict__ accept,
               const unsigned *__restrict__ seed, int height, int width, int half)
{
    __shared__ unsigned chances[9];
    if (threadIdx.x < 9)
        chances[threadIdx.x] = accept[threadIdx.x];
    __syncthreads();
    const unsigned salt = half * 0x9E3779B9u + seed[0];
    const int x = (blockIdx.x * THREADS + threadIdx.x) * 8, y = blockIdx.y;
    if (x >= width)
        return;
    const int offset = (half + y) % 2, edges = (y == 0) + (y == height - 1);
    const unsigned site = (unsigned)y * width + x;
    unsigned char *row = spins + (size_t)y * width;
    if (width % 8 == 0) {
        uint2 *at = reinterpret_cast<uint2 *>(row + x);
        const uint2 none = make_uint2(0, 0);
        uint2 here = *at;
        const uint2 above = y > 0 ? *reinterpret_cast<const uint2 *>(row + x - width) : none;
        const uint2 below = y < height - 1 ? *reinterpret_cast<const uint2 *>(row + x + width) : none;
        const unsigned left = x > 0 ? row[x - 1] : 0, right = x + 8 < width ? row[x + 8] : 0;
        const unsigned low = above.x + below.x + (here.x << 8 | left) + (here.x >> 8 | here.y << 24);
        const unsigned high = above.y + below.y + (here.y << 8 | here.x >> 24) + (here.y >> 8 | right << 24);
        here.x = four_sites(here.x, low, x, edges, offset, width, site, salt, chances);
        here.y = four_sites(here.y, high, x + 4, edges, offset, width, site + 4, salt, chances);
        *at = here;
    } else {
        for (int k = offset; k < min(8, width - x); k += 2) {
            const int c = x + k;
            int sum = edges + (c == 0) + (c == width - 1) - 4;
            sum += 2 * ((c > 0 ? row[c - 1] : 0) + (c < width - 1 ? row[c + 1] : 0));
            sum += 2 * ((y > 0 ? row[c - width] : 0) + (y < height - 1 ? row[c + width] : 0));
            if (random_word(salt, site + k) < chances[4 + (row[c] ? sum : -sum)])
                row[c] ^= 1;
        }
    }
}
