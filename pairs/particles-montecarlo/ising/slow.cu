__device__ unsigned random_word(unsigned seed, unsigned half, unsigned site)
{
    unsigned h = site ^ (half * 0x9E3779B9u + seed);
    h ^= h >> 16;
    h *= 0x7FEB352Du;
    h ^= h >> 15;
    h *= 0x846CA68Bu;
    h ^= h >> 16;
    return h;
}

extern "C" __global__ void half_sweep(unsigned char *spins, const unsigned *accept, const unsigned *seed, int height,
                                      int width, int half)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height || (x + y) % 2 != half % 2)
        return;
    int site = y * width + x;
    int sum = 0;
    if (x > 0)
        sum += 2 * spins[site - 1] - 1;
    if (x < width - 1)
        sum += 2 * spins[site + 1] - 1;
    if (y > 0)
        sum += 2 * spins[site - width] - 1;
    if (y < height - 1)
        sum += 2 * spins[site + width] - 1;
    int field = (2 * spins[site] - 1) * sum;
    if (random_word(seed[0], half, site) < accept[field + 4])
        spins[site] = 1 - spins[site];
}
