#define THREADS 1024
#define LANES 32
#define PIECE 64
#define STAGES 4

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

__device__ __forceinline__ unsigned shared_address(const void *at)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

__device__ __forceinline__ void wait(unsigned long long *barrier, unsigned parity)
{
    for (unsigned done = 0; !done;)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
                     " selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
}

__device__ __forceinline__ void request(uint4 *to, const uint4 *from, int packs, unsigned long long *barrier)
{
    const unsigned full = shared_address(barrier), place = shared_address(to);
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(full),
                 "r"(packs * 16)
                 : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(place), "l"(from), "r"(packs * 16), "r"(full)
                 : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    histogram(const unsigned char *__restrict__ bytes, int *__restrict__ counts, int n)
{
    extern __shared__ __align__(128) uint4 shared[];
    int *bins = reinterpret_cast<int *>(shared);
    __shared__ unsigned long long full[THREADS / LANES][STAGES];
    const int lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    const unsigned own = lane * 4;
    const uint4 *packed = reinterpret_cast<const uint4 *>(bytes);
    // Pieces of PIECE packs come through a ring of the warp's own: no warp waits for another.
    const int packs = n / 16, pieces = (packs + PIECE - 1) / PIECE, warps = gridDim.x * (THREADS / LANES);
    uint4 *ring = shared + 256 * LANES / 4 + warp * STAGES * PIECE;
    int piece = blockIdx.x * (THREADS / LANES) + warp;
    if (lane == 0) {
        for (int s = 0; s < STAGES; s++)
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&full[warp][s])));
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        for (int s = 0; s < STAGES && piece + s * warps < pieces; s++) {
            const int at = (piece + s * warps) * PIECE;
            request(ring + s * PIECE, packed + at, min(PIECE, packs - at), &full[warp][s]);
        }
    }
    clear(bins);
    for (unsigned parity = 0; piece < pieces; parity ^= 1) {
#pragma unroll
        for (int s = 0; s < STAGES; s++, piece += warps) {
            if (piece >= pieces)
                break;
            wait(&full[warp][s], parity);
            uint4 load[PIECE / LANES];
            const int left = packs - piece * PIECE;
#pragma unroll
            for (int u = 0; u < PIECE / LANES; u++)
                load[u] = ring[s * PIECE + u * LANES + lane];
            __syncwarp();
            const int next = (piece + STAGES * warps) * PIECE;
            if (lane == 0 && next < packs)
                request(ring + s * PIECE, packed + next, min(PIECE, packs - next), &full[warp][s]);
#pragma unroll
            for (int u = 0; u < PIECE / LANES; u++)
                if (u * LANES + lane < left)
                    count16(bins, own, load[u]);
        }
    }
    if (blockIdx.x == 0 && threadIdx.x < n % 16)
        count_at(bins, own, bytes[16 * packs + threadIdx.x] << 7);
    add_up(bins, counts);
}
