#define ROWS 8
#define STAGES 4
#define THREADS (32 * ROWS + 32)
#define FULL 0xffffffffu

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

__device__ __forceinline__ void wait_for(unsigned long long *barrier, unsigned parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
}

__device__ __forceinline__ void arrive(unsigned long long *barrier)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(barrier))
                 : "memory");
}

// One warp keeps bulk copies of eight rows in flight; eight warps take a row each, four bytes per instruction.
extern "C" __global__ void __launch_bounds__(THREADS)
    multiply(const signed char *__restrict__ matrix, const signed char *__restrict__ x, int *__restrict__ y, int m,
             int k)
{
    extern __shared__ int4 stages[];
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int tiles = (m + ROWS - 1) / ROWS, quads = k / 16;
    int4 *vector = stages + STAGES * ROWS * quads;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(full + s)) : "memory");
            asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(empty + s)), "r"(ROWS) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    for (int q = threadIdx.x; q < quads; q += THREADS)
        vector[q] = reinterpret_cast<const int4 *>(x)[q];
    __syncthreads();
    if (warp == ROWS) {
        if (lane == 0) {
            int turn = 0;
            for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, turn++) {
                const int s = turn % STAGES, bytes = min(ROWS, m - tile * ROWS) * k;
                if (turn >= STAGES)
                    wait_for(empty + s, (turn / STAGES - 1) % 2);
                asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(
                                 shared_address(full + s)),
                             "r"(bytes)
                             : "memory");
                asm volatile(
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                        shared_address(stages + s * ROWS * quads)),
                    "l"(matrix + static_cast<size_t>(tile) * ROWS * k), "r"(bytes), "r"(shared_address(full + s))
                    : "memory");
            }
        }
        return;
    }
    int turn = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, turn++) {
        const int s = turn % STAGES, row = tile * ROWS + warp;
        wait_for(full + s, turn / STAGES % 2);
        int sum = 0;
        if (row < m) {
            const int4 *from = stages + (s * ROWS + warp) * quads;
#pragma unroll 4
            for (int q = lane; q < quads; q += 32) {
                const int4 a = from[q], b = vector[q];
                sum = __dp4a(a.x, b.x, __dp4a(a.y, b.y, __dp4a(a.z, b.z, __dp4a(a.w, b.w, sum))));
            }
        }
        sum = __reduce_add_sync(FULL, sum);
        if (lane == 0) {
            arrive(empty + s);
            if (row < m)
                y[row] = sum;
        }
    }
}
