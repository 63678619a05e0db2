// Eight sites of four rows a thread, so that rows are read once and a half instead of three times. All that decides a
// site's chance (its spin, how many neighbours point up, how many lie outside) is a number of seven bits, made for four
// sites at once; chances by that number lie in shared memory.
#define THREADS 128
#define ROWS 4
#define FULL_BYTES 0x01010101u

__device__ __forceinline__ unsigned random_word(unsigned h)
{
    h ^= h >> 16;
    h *= 0x7FEB352Du;
    h ^= h >> 15;
    h *= 0x846CA68Bu;
    h ^= h >> 16;
    return h;
}

// Two of four sites: `numbers` has a byte for each.
__device__ __forceinline__ unsigned two_sites(unsigned here, unsigned numbers, int offset, unsigned salted,
                                              const unsigned *chances)
{
    numbers >>= 8 * offset;
    unsigned flips = 0;
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (random_word(salted ^ (2 * i + offset)) < chances[numbers >> 16 * i & 127u])
            flips |= 1u << 16 * i;
    return here ^ flips << 8 * offset;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    half_sweep(unsigned char *__restrict__ spins, const unsigned *__restrict__ accept,
               const unsigned *__restrict__ seed, int height, int width, int half)
{
    __shared__ unsigned chances[80];
    if (threadIdx.x < 80) {
        const int up = threadIdx.x % 8, outside = threadIdx.x / 16;
        const int sum = 2 * up + outside - 4, field = threadIdx.x / 8 % 2 ? sum : -sum;
        chances[threadIdx.x] = accept[min(max(field + 4, 0), 8)];
    }
    __syncthreads();
    const unsigned salt = half * 0x9E3779B9u + seed[0];
    const int x = (blockIdx.x * THREADS + threadIdx.x) * 8, first = blockIdx.y * ROWS;
    if (x >= width)
        return;
    if (width % 8 == 0) {
        const uint2 none = make_uint2(0, 0);
        unsigned char *column = spins + x;
        uint2 rows[ROWS + 2];
        unsigned beside[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS + 2; r++) {
            const int y = first + r - 1;
            const bool there = y >= 0 && y < height;
            rows[r] = there ? *reinterpret_cast<const uint2 *>(column + static_cast<size_t>(y) * width) : none;
        }
        // Even sites look beyond the left end of the eight, odd ones beyond the right.
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int y = first + r, away = (half + y) % 2 ? 8 : -1;
            const bool there = y < height && x + away >= 0 && x + away < width;
            beside[r] = there ? column[static_cast<size_t>(y) * width + away] : 0;
        }
        const unsigned left_out = x == 0 ? 16u : 0u, right_out = x + 8 == width ? 16u << 24 : 0u;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const int y = first + r, offset = (half + y) % 2;
            if (y >= height)
                break;
            uint2 here = rows[r + 1];
            const uint2 above = rows[r], below = rows[r + 2];
            const unsigned outside = ((y == 0) + (y == height - 1)) * 16u * FULL_BYTES;
            const unsigned low = above.x + below.x + (here.x << 8 | beside[r]) + (here.x >> 8 | here.y << 24) +
                                 (here.x << 3) + outside + left_out;
            const unsigned high = above.y + below.y + (here.y << 8 | here.x >> 24) +
                                  (here.y >> 8 | beside[r] << 24) + (here.y << 3) + outside + right_out;
            const unsigned salted = salt ^ (static_cast<unsigned>(y) * width + x);
            here.x = two_sites(here.x, low, offset, salted, chances);
            here.y = two_sites(here.y, high, offset, salted ^ 4, chances);
            *reinterpret_cast<uint2 *>(column + static_cast<size_t>(y) * width) = here;
        }
        return;
    }
    for (int y = first; y < min(first + ROWS, height); y++) {
        unsigned char *row = spins + static_cast<size_t>(y) * width;
        for (int k = (half + y) % 2; k < min(8, width - x); k += 2) {
            const int c = x + k, outside = (y == 0) + (y == height - 1) + (c == 0) + (c == width - 1);
            int up = (c > 0 ? row[c - 1] : 0) + (c < width - 1 ? row[c + 1] : 0);
            up += (y > 0 ? row[c - width] : 0) + (y < height - 1 ? row[c + width] : 0);
            const unsigned site = static_cast<unsigned>(y) * width + c;
            if (random_word(salt ^ site) < chances[outside * 16 + row[c] * 8 + up])
                row[c] ^= 1;
        }
    }
}
