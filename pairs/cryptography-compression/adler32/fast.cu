#define THREADS 256
#define TILE 8192
#define STAGES 4
#define FULL 0xffffffffu

typedef unsigned long long word;

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

__device__ __forceinline__ void wait_for(word *barrier, unsigned parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
}

// Piece `turn` of what this block has to read: pieces of its chunks, one chunk after the other.
__device__ __forceinline__ void request(uint4 *stages, word *full, const unsigned char *__restrict__ data, int turn,
                                        int pieces, int length)
{
    const int s = turn % STAGES, piece = turn % pieces;
    const size_t chunk = blockIdx.x + static_cast<size_t>(turn / pieces) * gridDim.x;
    const int bytes = min(TILE, length - piece * TILE);
    asm volatile(
        "{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(shared_address(full + s)),
        "r"(bytes)
        : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(stages + s * (TILE / 16))),
                 "l"(data + chunk * length + piece * TILE), "r"(bytes), "r"(shared_address(full + s))
                 : "memory");
}

// Bulk copies keep four pieces in flight; a thread takes sixteen bytes with two products of four bytes per word.
extern "C" __global__ void __launch_bounds__(THREADS)
    checksum(const unsigned char *__restrict__ data, unsigned *__restrict__ sums, int chunks, int length)
{
    __shared__ __align__(128) uint4 stages[STAGES * TILE / 16];
    __shared__ word full[STAGES];
    __shared__ word plain_sums[THREADS / 32], weighted_sums[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int pieces = (length + TILE - 1) / TILE;
    const int own =
        (chunks - static_cast<int>(blockIdx.x) + static_cast<int>(gridDim.x) - 1) / static_cast<int>(gridDim.x);
    const int turns = own * pieces;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++)
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(full + s)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        for (int turn = 0; turn < min(STAGES, turns); turn++)
            request(stages, full, data, turn, pieces, length);
    }
    __syncthreads();
    word plain = 0, weighted = 0;
    for (int turn = 0; turn < turns; turn++) {
        const int s = turn % STAGES, piece = turn % pieces, bytes = min(TILE, length - piece * TILE);
        wait_for(full + s, turn / STAGES % 2);
#pragma unroll
        for (int part = 0; part < TILE / 16 / THREADS; part++) {
            const int q = threadIdx.x + part * THREADS;
            if (16 * q < bytes) {
                const uint4 v = stages[s * (TILE / 16) + q];
                const unsigned sum = __dp4a(
                    v.x, 0x01010101u, __dp4a(v.y, 0x01010101u, __dp4a(v.z, 0x01010101u, __dp4a(v.w, 0x01010101u, 0u))));
                const unsigned places = __dp4a(
                    v.x, 0x03020100u, __dp4a(v.y, 0x07060504u, __dp4a(v.z, 0x0b0a0908u, __dp4a(v.w, 0x0f0e0d0cu, 0u))));
                plain += sum;
                weighted += static_cast<word>(length - piece * TILE - 16 * q) * sum - places;
            }
        }
        __syncthreads();
        if (threadIdx.x == 0 && turn + STAGES < turns)
            request(stages, full, data, turn + STAGES, pieces, length);
        if (piece < pieces - 1)
            continue;
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) {
            plain += __shfl_xor_sync(FULL, plain, offset);
            weighted += __shfl_xor_sync(FULL, weighted, offset);
        }
        if (lane == 0) {
            plain_sums[warp] = plain;
            weighted_sums[warp] = weighted;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            word a = 1, b = length;
            for (int w = 0; w < THREADS / 32; w++) {
                a += plain_sums[w];
                b += weighted_sums[w];
            }
            sums[blockIdx.x + static_cast<size_t>(turn / pieces) * gridDim.x] =
                static_cast<unsigned>(b % 65521) << 16 | static_cast<unsigned>(a % 65521);
        }
        plain = weighted = 0;
    }
}
