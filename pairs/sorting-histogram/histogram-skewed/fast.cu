#define THREADS 128
#define ROWS 64
#define ROUNDS 15

__device__ __forceinline__ void count4(unsigned char *own, unsigned word)
{
#pragma unroll
    for (int shift = 0; shift < 32; shift += 8) {
        const unsigned bin = (word >> shift) & 0xff;
        own[(bin / 4) * (4 * THREADS) + bin % 4]++;
    }
}

__device__ __forceinline__ void drain(unsigned *cells, int (&total)[4])
{
    const int row = threadIdx.x / 2, side = threadIdx.x % 2 * (THREADS / 2);
    unsigned even = 0, odd = 0;
    for (int step = 0; step < THREADS / 2; step++) {
        unsigned *cell = cells + row * THREADS + side + (step + threadIdx.x) % (THREADS / 2);
        const unsigned word = *cell;
        *cell = 0;
        even += word & 0x00ff00ffu;
        odd += (word >> 8) & 0x00ff00ffu;
    }
    total[0] += even & 0xffff;
    total[1] += odd & 0xffff;
    total[2] += even >> 16;
    total[3] += odd >> 16;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    histogram(const unsigned char *__restrict__ bytes, int *__restrict__ counts, int n)
{
    __shared__ unsigned cells[ROWS * THREADS];
    for (int c = threadIdx.x; c < ROWS * THREADS; c += THREADS)
        cells[c] = 0;
    __syncthreads();
    unsigned char *own = reinterpret_cast<unsigned char *>(cells + threadIdx.x);
    const uint4 *packed = reinterpret_cast<const uint4 *>(bytes);
    const int packs = n / 16;
    const int stride = gridDim.x * THREADS;
    int total[4] = {};
    for (int base = blockIdx.x * THREADS; base < packs; base += ROUNDS * stride) {
#pragma unroll 5
        for (int round = 0; round < ROUNDS; round++) {
            const int i = base + round * stride + threadIdx.x;
            if (i < packs) {
                const uint4 load = __ldcs(packed + i);
                count4(own, load.x);
                count4(own, load.y);
                count4(own, load.z);
                count4(own, load.w);
            }
        }
        __syncthreads();
        drain(cells, total);
        __syncthreads();
    }
#pragma unroll
    for (int k = 0; k < 4; k++)
        atomicAdd(counts + threadIdx.x / 2 * 4 + k, total[k]);
    if (blockIdx.x == 0 && threadIdx.x < n % 16)
        atomicAdd(counts + bytes[16 * packs + threadIdx.x], 1);
}
