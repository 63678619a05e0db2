#define THREADS 1024
#define LANES 32
#define AHEAD 4

// A column of counters for each lane: whatever the bytes, the lanes of a warp hit different banks.
__device__ __forceinline__ void count_at(int *bins, unsigned own, unsigned place)
{
    atomicAdd(reinterpret_cast<int *>(reinterpret_cast<char *>(bins) + ((place & 0x7f80) | own)), 1);
}

__device__ __forceinline__ void count4(int *bins, unsigned own, unsigned word)
{
    count_at(bins, own, word << 7);
    count_at(bins, own, word >> 1);
    count_at(bins, own, word >> 9);
    count_at(bins, own, word >> 17);
}

__device__ __forceinline__ void count16(int *bins, unsigned own, uint4 load)
{
    count4(bins, own, load.x);
    count4(bins, own, load.y);
    count4(bins, own, load.z);
    count4(bins, own, load.w);
}

__device__ __forceinline__ void clear(int *bins)
{
#pragma unroll
    for (int u = 0; u < 256 * LANES / 4 / THREADS; u++)
        reinterpret_cast<uint4 *>(bins)[threadIdx.x + u * THREADS] = make_uint4(0, 0, 0, 0);
    __syncthreads();
}

// Four lanes share a bin, each with eight of its columns, no two of a warp in one bank; eight neighbouring
// counts go to memory at a time.
__device__ __forceinline__ void add_up(const int *bins, int *counts)
{
    __syncthreads();
    const int lane = threadIdx.x % LANES;
    for (int bin = threadIdx.x / LANES * 8 + lane % 8; bin < 256; bin += THREADS / 4) {
        int total = 0;
#pragma unroll
        for (int j = 0; j < 8; j++)
            total += bins[bin * LANES + (lane + j) % LANES];
        total += __shfl_xor_sync(0xffffffffu, total, 8);
        total += __shfl_xor_sync(0xffffffffu, total, 16);
        if (lane < 8 && total > 0)
            atomicAdd(counts + bin, total);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    histogram(const unsigned char *__restrict__ bytes, int *__restrict__ counts, int n)
{
    __shared__ __align__(128) int bins[256 * LANES];
    const unsigned own = threadIdx.x % LANES * 4;
    const uint4 *packed = reinterpret_cast<const uint4 *>(bytes);
    const int packs = n / 16, stride = gridDim.x * THREADS;
    clear(bins);
    int i = blockIdx.x * THREADS + threadIdx.x;
    for (; i + (AHEAD - 1) * stride < packs; i += AHEAD * stride) {
        uint4 load[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            load[u] = __ldcs(packed + i + u * stride);
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            count16(bins, own, load[u]);
    }
    for (; i < packs; i += stride)
        count16(bins, own, __ldcs(packed + i));
    if (blockIdx.x == 0 && threadIdx.x < n % 16)
        count_at(bins, own, bytes[16 * packs + threadIdx.x] << 7);
    add_up(bins, counts);
}
