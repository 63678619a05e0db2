#define ROWS 128
#define STAGES 3

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// One bulk copy brings the rows of a tile, but for at most three numbers at the end of the last one.
__device__ __forceinline__ void start_copy(float *tile, const float *from, int items, unsigned long long *ready)
{
    const int bytes = items / 4 * 16;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(ready)), "r"(bytes)
                 : "memory");
    if (bytes)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         shared_address(tile)),
                     "l"(from), "r"(bytes), "r"(shared_address(ready))
                     : "memory");
}

__device__ __forceinline__ void wait(unsigned long long *ready, unsigned parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(ready)), "r"(parity)
                     : "memory");
}

// Resident blocks walk over tiles of rows. While one tile is used, the copies of the next ones are under way, so that
// no multiprocessor waits for the first bytes of a new block. A row's odd width spreads the banks.
extern "C" __global__ void __launch_bounds__(ROWS)
    multiply(const float *__restrict__ band, const float *__restrict__ x, float *__restrict__ y, int n, int reach,
             int stages)
{
    extern __shared__ float4 room[];
    __shared__ unsigned long long ready[STAGES];
    const int width = 2 * reach + 1, tiles = (n + ROWS - 1) / ROWS;
    float *near = reinterpret_cast<float *>(room) + stages * ROWS * width;
    const auto items_of = [&](int tile) { return min(ROWS, n - tile * ROWS) * width; };
    const auto start = [&](int tile, int stage) {
        start_copy(reinterpret_cast<float *>(room) + stage * ROWS * width,
                   band + static_cast<size_t>(tile) * ROWS * width, items_of(tile), &ready[stage]);
    };
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < stages; stage++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&ready[stage])) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        for (int ahead = 0; ahead < stages - 1; ahead++)
            if (blockIdx.x + ahead * gridDim.x < tiles)
                start(blockIdx.x + ahead * gridDim.x, ahead);
    }
    int stage = 0, free_stage = stages - 1;
    unsigned parity = 0;
    for (int index = blockIdx.x; index < tiles; index += gridDim.x) {
        const int first = index * ROWS, items = items_of(index);
        const float *from = band + static_cast<size_t>(first) * width;
        float *tile = reinterpret_cast<float *>(room) + stage * ROWS * width;
        __syncthreads();
        const int later = index + (stages - 1) * gridDim.x, next = index + gridDim.x;
        if (threadIdx.x == 0 && later < tiles)
            start(later, free_stage);
        if (threadIdx.x < ROWS / 32 && next * ROWS + static_cast<int>(threadIdx.x) * 32 < n)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(x + next * ROWS + threadIdx.x * 32));
        for (int k = threadIdx.x; k < ROWS + 2 * reach; k += ROWS) {
            const int column = first + k - reach;
            near[k] = column >= 0 && column < n ? x[column] : 0.0f;
        }
        for (int q = items / 4 * 4 + threadIdx.x; q < items; q += ROWS)
            tile[q] = from[q];
        wait(&ready[stage], parity);
        __syncthreads();
        free_stage = stage;
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
        const int row = first + threadIdx.x;
        if (row >= n)
            continue;
        const int low = max(0, reach - row), high = min(width, n - row + reach);
        const float *mine = tile + threadIdx.x * width, *by = near + threadIdx.x;
        float sum[4] = {};
        int d = low;
        for (; d + 3 < high; d += 4) {
#pragma unroll
            for (int s = 0; s < 4; s++)
                sum[s] = fmaf(mine[d + s], by[d + s], sum[s]);
        }
        for (; d < high; d++)
            sum[0] = fmaf(mine[d], by[d], sum[0]);
        __stcs(y + row, sum[0] + sum[1] + (sum[2] + sum[3]));
    }
}
