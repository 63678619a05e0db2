#define THREADS 1024
#define LANES 32
#define AHEAD 4

// A column of counters for each lane: whatever the bytes, the lanes of a warp hit different banks.
__device__ __forceinline__ void count_at(char *own, unsigned place)
{
    atomicAdd(reinterpret_cast<int *>(own + (place & 0x7f80)), 1);
}

__device__ __forceinline__ void count4(char *own, unsigned word)
{
    count_at(own, word << 7);
    count_at(own, word >> 1);
    count_at(own, word >> 9);
    count_at(own, word >> 17);
}

__device__ __forceinline__ void count16(char *own, const uint4 &load)
{
    count4(own, load.x);
    count4(own, load.y);
    count4(own, load.z);
    count4(own, load.w);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    histogram(const unsigned char *__restrict__ bytes, int *__restrict__ counts, int n)
{
    __shared__ int bins[256 * LANES];
    const int lane = threadIdx.x % LANES;
    for (int b = threadIdx.x; b < 256 * LANES; b += THREADS)
        bins[b] = 0;
    __syncthreads();
    char *own = reinterpret_cast<char *>(bins + lane);
    const uint4 *packed = reinterpret_cast<const uint4 *>(bytes);
    const int packs = n / 16, stride = gridDim.x * THREADS;
    int i = blockIdx.x * THREADS + threadIdx.x;
    for (; i + (AHEAD - 1) * stride < packs; i += AHEAD * stride) {
        uint4 load[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            load[u] = __ldcs(packed + i + u * stride);
#pragma unroll
        for (int u = 0; u < AHEAD; u++)
            count16(own, load[u]);
    }
    for (; i < packs; i += stride)
        count16(own, __ldcs(packed + i));
    if (blockIdx.x == 0 && threadIdx.x < n % 16)
        count_at(own, bytes[16 * packs + threadIdx.x] << 7);
    __syncthreads();
    for (int b = threadIdx.x / LANES; b < 256; b += THREADS / LANES) {
        int total = bins[b * LANES + lane];
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2)
            total += __shfl_xor_sync(0xffffffffu, total, offset);
        if (lane == 0 && total > 0)
            atomicAdd(counts + b, total);
    }
}
