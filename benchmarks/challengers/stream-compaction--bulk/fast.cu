// One pass with look-back. A block stays and takes tile after tile: a bulk copy brings the next one while what this one
// keeps is gathered in shared memory and waits for its place. One scan of four packed counts serves a whole tile.
#define THREADS 512
#define WARPS (THREADS / 32)
#define CHUNKS 4
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
    bool found = tile == 0;
    for (int base = tile - 1; !found; base -= 32) {
        word state;
        do {
            state = base >= lane ? states[base - lane] : pack(HAS_PREFIX, 0);
        } while (__any_sync(FULL, (state >> 32) == 0));
        const unsigned prefixes = __ballot_sync(FULL, (state >> 32) == HAS_PREFIX);
        const int last = prefixes ? __ffs(prefixes) - 1 : 31;
        before += __reduce_add_sync(FULL, lane <= last ? static_cast<int>(state) : 0);
        found = prefixes != 0;
    }
    if (lane == 0)
        states[tile] = pack(HAS_PREFIX, before + total);
    return before;
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    compact(const int *__restrict__ values, int *__restrict__ kept, int *__restrict__ count, word *states,
            int *ticket, int n, int limit)
{
    extern __shared__ __align__(128) int next_values[];
    int *staged = next_values + TILE;
    __shared__ word full;
    __shared__ int warp_totals[WARPS];
    __shared__ int shared_tile, shared_before;
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
        int item[CHUNKS][4];
        unsigned counts = 0;
        wait_for(&full, parity);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = local + c * 128;
            if (at + 3 < size) {
                const int4 four = *reinterpret_cast<const int4 *>(next_values + at);
                item[c][0] = four.x, item[c][1] = four.y, item[c][2] = four.z, item[c][3] = four.w;
            } else {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    item[c][e] = at + e < size ? values[base + at + e] : limit;
            }
#pragma unroll
            for (int e = 0; e < 4; e++)
                counts += static_cast<unsigned>(item[c][e] > limit) << c * 8;
        }
        // Four counts a word: none of a warp's chunk exceeds 128.
        unsigned upto = warp_inclusive(counts, lane);
        const unsigned all = __shfl_sync(FULL, upto, 31);
        if (lane == 0)
            warp_totals[warp] = (all & 0xff) + (all >> 8 & 0xff) + (all >> 16 & 0xff) + (all >> 24);
        __syncthreads();
        if (threadIdx.x == 32) {
            const int next = atomicAdd(ticket, 1);
            shared_tile = next;
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            if (next < tiles)
                request(next_values, values + next * TILE, (min(TILE, n - next * TILE) & ~3) * 4, &full);
        }
        const int own_total = lane < WARPS ? warp_totals[lane] : 0;
        const int here = __reduce_add_sync(FULL, own_total);
        if (threadIdx.x == 0 && tile > 0)
            *reinterpret_cast<volatile word *>(states + tile) = pack(HAS_TOTAL, here);
        int start = __reduce_add_sync(FULL, lane < warp ? own_total : 0);
        upto -= counts;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            int place = start + (upto >> c * 8 & 0xff);
            start += all >> c * 8 & 0xff;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                if (item[c][e] > limit)
                    staged[place++] = item[c][e];
            }
        }
        if (warp == 0) {
            const int before = look_back(states, tile, here, lane);
            if (lane == 0) {
                shared_before = before;
                if (tile == tiles - 1)
                    *count = before + here;
            }
        }
        __syncthreads();
        const int before = shared_before;
#pragma unroll 4
        for (int k = threadIdx.x; k < here; k += THREADS)
            kept[before + k] = staged[k];
    }
}
