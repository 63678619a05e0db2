#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNKS 4
#define TILE (THREADS * CHUNKS * 4)
#define FULL 0xffffffffu
#define HAS_TOTAL 1
#define HAS_PREFIX 2

typedef unsigned long long word;

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

__device__ int look_back(volatile word *states, int tile, int total, int lane)
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

// 16 bytes to shared memory in the background.
__device__ __forceinline__ void copy_async(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from) : "memory");
}

// Resident blocks draw tiles in order, one ahead, which is on its way to shared memory while one warp looks back and the
// others put what they keep together. A thread reads only what it has copied itself.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    compact(const int *__restrict__ values, int *__restrict__ kept, int *__restrict__ count, word *states,
            int *ticket, int n, int limit, int tiles)
{
    extern __shared__ __align__(16) int4 stages[];
    __shared__ int warp_totals[WARPS], drawn[2], shared_before;
    int *staged = reinterpret_cast<int *>(stages + 2 * CHUNKS * THREADS);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, own_first = warp * (TILE / WARPS) + lane * 4;
    const auto start_tile = [&](int turn) {
        const int tile = drawn[turn % 2];
        if (tile < tiles && (tile + 1) * static_cast<long long>(TILE) <= n)
#pragma unroll
            for (int c = 0; c < CHUNKS; c++)
                copy_async(stages + (turn % 2 * CHUNKS + c) * THREADS + threadIdx.x,
                           values + tile * TILE + own_first + c * 128);
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    if (threadIdx.x == 0) {
        drawn[0] = atomicAdd(ticket, 1);
        drawn[1] = atomicAdd(ticket, 1);
    }
    __syncthreads();
    start_tile(0);
    start_tile(1);
    for (int turn = 0;; turn++) {
        const int tile = drawn[turn % 2];
        if (tile >= tiles)
            return;
        int next = 0;
        if (threadIdx.x == 0)
            next = atomicAdd(ticket, 1);
        const int first = tile * TILE + own_first;
        const bool whole = (tile + 1) * static_cast<long long>(TILE) <= n;
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        int item[CHUNKS][4];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = first + c * 128;
            if (whole) {
                const int4 load = stages[(turn % 2 * CHUNKS + c) * THREADS + threadIdx.x];
                item[c][0] = load.x;
                item[c][1] = load.y;
                item[c][2] = load.z;
                item[c][3] = load.w;
            } else {
#pragma unroll
                for (int k = 0; k < 4; k++)
                    item[c][k] = at + k < n ? values[at + k] : limit;
            }
        }
        int start[CHUNKS], running = 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            int own = 0;
#pragma unroll
            for (int k = 0; k < 4; k++)
                own += item[c][k] > limit;
            const int upto = warp_inclusive(own, lane);
            start[c] = running + upto - own;
            running += __shfl_sync(FULL, upto, 31);
        }
        if (lane == 0)
            warp_totals[warp] = running;
        __syncthreads();
        int total = 0, before_warp = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            before_warp += w < warp ? warp_totals[w] : 0;
            total += warp_totals[w];
        }
        if (warp == 0) {
            const int before = look_back(states, tile, total, lane);
            if (lane == 0) {
                drawn[turn % 2] = next;
                shared_before = before;
                if (tile == tiles - 1)
                    *count = before + total;
            }
        }
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            int at = before_warp + start[c];
#pragma unroll
            for (int k = 0; k < 4; k++)
                if (item[c][k] > limit)
                    staged[at++] = item[c][k];
        }
        __syncthreads();
        start_tile(turn + 2);
        const int before = shared_before;
        for (int i = threadIdx.x; i < total; i += THREADS)
            kept[before + i] = staged[i];
    }
}
