#define WARPS 8
#define THREADS (32 * WARPS)
#define PITCH 257

__device__ __forceinline__ void count4(int *bins, unsigned word)
{
    atomicAdd(bins + (word & 0xff), 1);
    atomicAdd(bins + ((word >> 8) & 0xff), 1);
    atomicAdd(bins + ((word >> 16) & 0xff), 1);
    atomicAdd(bins + (word >> 24), 1);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    histogram(const unsigned char *__restrict__ bytes, int *__restrict__ counts, int n)
{
    __shared__ int bins[WARPS * PITCH];
    for (int b = threadIdx.x; b < WARPS * PITCH; b += THREADS)
        bins[b] = 0;
    __syncthreads();
    int *own = bins + threadIdx.x / 32 * PITCH;
    const uint4 *packed = reinterpret_cast<const uint4 *>(bytes);
    const int packs = n / 16;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < packs; i += gridDim.x * THREADS) {
        const uint4 load = __ldcs(packed + i);
        count4(own, load.x);
        count4(own, load.y);
        count4(own, load.z);
        count4(own, load.w);
    }
    if (blockIdx.x == 0 && threadIdx.x < n % 16)
        atomicAdd(own + bytes[16 * packs + threadIdx.x], 1);
    __syncthreads();
    int total = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        total += bins[w * PITCH + threadIdx.x];
    atomicAdd(counts + threadIdx.x, total);
}
