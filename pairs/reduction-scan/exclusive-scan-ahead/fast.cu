#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNKS 4
#define TILE (THREADS * CHUNKS * 4)
#define AHEAD 3
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

// Resident blocks draw tiles in order, two ahead: those are on their way to shared memory while a block waits for the sums
// before its own. A thread reads only what it has copied itself.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    scan(const int *__restrict__ values, int *__restrict__ sums, word *states, int *ticket, int n, int tiles)
{
    extern __shared__ __align__(16) int4 stages[];
    __shared__ int warp_totals[2][WARPS], drawn[AHEAD];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int own_first = warp * (TILE / WARPS) + lane * 4;
    const auto start = [&](int turn) {
        const int tile = drawn[turn % AHEAD], first = tile * TILE + own_first;
        if (tile < tiles && (tile + 1) * static_cast<long long>(TILE) <= n)
#pragma unroll
            for (int c = 0; c < CHUNKS; c++)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(
                                 __cvta_generic_to_shared(stages + (turn % AHEAD * CHUNKS + c) * THREADS + threadIdx.x))),
                             "l"(values + first + c * 128) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    if (threadIdx.x == 0) {
        drawn[0] = atomicAdd(ticket, 1);
        drawn[1] = atomicAdd(ticket, 1);
    }
    __syncthreads();
    start(0);
    start(1);
    for (int turn = 0;; turn++) {
        const int tile = drawn[turn % AHEAD];
        if (tile >= tiles)
            return;
        int next = 0;
        if (threadIdx.x == 0)
            next = atomicAdd(ticket, 1);
        const int first = tile * TILE + own_first;
        const bool whole = (tile + 1) * static_cast<long long>(TILE) <= n;
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        int4 item[CHUNKS];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = first + c * 128;
            if (whole) {
                item[c] = stages[(turn % AHEAD * CHUNKS + c) * THREADS + threadIdx.x];
            } else {
                item[c].x = at < n ? values[at] : 0;
                item[c].y = at + 1 < n ? values[at + 1] : 0;
                item[c].z = at + 2 < n ? values[at + 2] : 0;
                item[c].w = at + 3 < n ? values[at + 3] : 0;
            }
        }
        int start_at[CHUNKS], running = 0;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int own = item[c].x + item[c].y + item[c].z + item[c].w;
            const int upto = warp_inclusive(own, lane);
            start_at[c] = running + upto - own;
            running += __shfl_sync(FULL, upto, 31);
        }
        int *totals = warp_totals[turn % 2];
        if (lane == 0)
            totals[warp] = running;
        __syncthreads();
        if (warp == 0) {
            const int own = lane < WARPS ? totals[lane] : 0;
            const int upto = warp_inclusive(own, lane);
            const int before = look_back(states, tile, __shfl_sync(FULL, upto, 31), lane);
            if (lane < WARPS)
                totals[lane] = before + upto - own;
            if (lane == 0)
                drawn[(turn + 2) % AHEAD] = next;
        }
        __syncthreads();
        start(turn + 2);
        const int before = totals[warp];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = first + c * 128;
            int4 sum;
            sum.x = before + start_at[c];
            sum.y = sum.x + item[c].x;
            sum.z = sum.y + item[c].y;
            sum.w = sum.z + item[c].z;
            if (whole) {
                __stcs(reinterpret_cast<int4 *>(sums + at), sum);
            } else {
                if (at < n)
                    sums[at] = sum.x;
                if (at + 1 < n)
                    sums[at + 1] = sum.y;
                if (at + 2 < n)
                    sums[at + 2] = sum.z;
                if (at + 3 < n)
                    sums[at + 3] = sum.w;
            }
        }
    }
}
