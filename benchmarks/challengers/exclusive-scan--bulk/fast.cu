// One pass with look-back. A block stays and takes tile after tile: while one is in registers and waits for the sum of
// all before it, a bulk copy brings the next into shared memory, so that reading never stops.
#define THREADS 512
#define WARPS (THREADS / 32)
#define CHUNKS 8
#define TILE (THREADS * CHUNKS * 4)
#define FULL 0xffffffffu
#define HAS_TOTAL 1
#define HAS_PREFIX 2

typedef unsigned long long word;

__device__ __forceinline__ unsigned shared_address(const void *pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void wait_for(const word *barrier, int parity)
{
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
}

// A bulk copy of this many bytes, a multiple of 16, perhaps none.
__device__ __forceinline__ void request(int *to, const int *from, int bytes, const word *barrier)
{
    asm volatile("{ .reg .b64 state; mbarrier.arrive.expect_tx.shared.b64 state, [%0], %1; }" ::"r"(
                     shared_address(barrier)),
                 "r"(bytes)
                 : "memory");
    if (bytes > 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                         shared_address(to)),
                     "l"(from), "r"(bytes), "r"(shared_address(barrier))
                     : "memory");
}

__device__ __forceinline__ word pack(int flag, int value)
{
    return (static_cast<word>(flag) << 32) | static_cast<unsigned>(value);
}

__device__ __forceinline__ int warp_inclusive(int value, int lane)
{
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        int other = __shfl_up_sync(FULL, value, distance);
        if (lane >= distance)
            value += other;
    }
    return value;
}

__device__ __forceinline__ int look_back(volatile word *states, int tile, int total, int lane)
{
    int before = 0;
    if (tile > 0) {
        if (lane == 0)
            states[tile] = pack(HAS_TOTAL, total);
        bool found = false;
        for (int base = tile - 1; !found; base -= 32) {
            word state;
            do {
                state = base >= lane ? states[base - lane] : pack(HAS_PREFIX, 0);
            } while (__any_sync(FULL, (state >> 32) == 0));
            unsigned prefixes = __ballot_sync(FULL, (state >> 32) == HAS_PREFIX);
            int last = prefixes ? __ffs(prefixes) - 1 : 31;
            before += __reduce_add_sync(FULL, lane <= last ? static_cast<int>(state) : 0);
            found = prefixes != 0;
        }
    }
    if (lane == 0)
        states[tile] = pack(HAS_PREFIX, before + total);
    return before;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    scan(const int *__restrict__ values, int *__restrict__ sums, word *states, int *ticket, int n)
{
    extern __shared__ __align__(128) int next_values[];
    __shared__ word full;
    __shared__ int warp_totals[WARPS];
    __shared__ int shared_tile;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int tiles = (n + TILE - 1) / TILE;
    if (threadIdx.x == 32) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&full)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        const int tile = atomicAdd(ticket, 1);
        shared_tile = tile;
        if (tile < tiles)
            request(next_values, values + tile * TILE, (min(TILE, n - tile * TILE) & ~3) * 4, &full);
    }
    __syncthreads();
    int parity = 0;
    for (int tile = shared_tile; tile < tiles; tile = shared_tile, parity ^= 1) {
        const int local = warp * (TILE / WARPS) + lane * 4, base = tile * TILE, size = min(TILE, n - base);
        int4 item[CHUNKS];
        wait_for(&full, parity);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = local + c * 128;
            if (at + 3 < size) {
                item[c] = *reinterpret_cast<const int4 *>(next_values + at);
            } else {
                item[c].x = at < size ? values[base + at] : 0;
                item[c].y = at + 1 < size ? values[base + at + 1] : 0;
                item[c].z = at + 2 < size ? values[base + at + 2] : 0;
                item[c].w = 0;
            }
        }
        __syncthreads();
        if (threadIdx.x == 32) {
            const int next = atomicAdd(ticket, 1);
            shared_tile = next;
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            if (next < tiles)
                request(next_values, values + next * TILE, (min(TILE, n - next * TILE) & ~3) * 4, &full);
        }
        int start[CHUNKS], running = 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int own = item[c].x + item[c].y + item[c].z + item[c].w;
            const int upto = warp_inclusive(own, lane);
            start[c] = running + upto - own;
            running += __shfl_sync(FULL, upto, 31);
        }
        if (lane == 0)
            warp_totals[warp] = running;
        __syncthreads();
        if (warp == 0) {
            const int own = lane < WARPS ? warp_totals[lane] : 0;
            const int upto = warp_inclusive(own, lane);
            const int before = look_back(states, tile, __shfl_sync(FULL, upto, 31), lane);
            if (lane < WARPS)
                warp_totals[lane] = before + upto - own;
        }
        __syncthreads();
        const int before = warp_totals[warp];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = local + c * 128;
            int4 sum;
            sum.x = before + start[c];
            sum.y = sum.x + item[c].x;
            sum.z = sum.y + item[c].y;
            sum.w = sum.z + item[c].z;
            if (at + 3 < size) {
                __stcs(reinterpret_cast<int4 *>(sums + base + at), sum);
            } else {
                if (at < size)
                    sums[base + at] = sum.x;
                if (at + 1 < size)
                    sums[base + at + 1] = sum.y;
                if (at + 2 < size)
                    sums[base + at + 2] = sum.z;
            }
        }
    }
}
