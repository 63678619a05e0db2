#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNKS 4
#define TILE (THREADS * CHUNKS * 4)
#define FULL 0xffffffffu

typedef unsigned long long word;

// The sum since the last head, and whether there was one.
struct run {
    int sum;
    bool head;
};

__device__ __forceinline__ run joined(run left, run right)
{
    return {right.head ? right.sum : left.sum + right.sum, left.head || right.head};
}

__device__ __forceinline__ run shifted(run own, int distance)
{
    return {__shfl_up_sync(FULL, own.sum, distance), __shfl_up_sync(FULL, static_cast<int>(own.head), distance) != 0};
}

__device__ __forceinline__ run warp_inclusive(run own, int lane)
{
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const run other = shifted(own, distance);
        if (lane >= distance)
            own = joined(other, own);
    }
    return own;
}

// 1: this tile alone, no head in it; 2: nothing before this tile matters any more.
__device__ __forceinline__ word pack(int flag, int sum)
{
    return static_cast<word>(flag) << 32 | static_cast<unsigned>(sum);
}

__device__ int look_back(volatile word *states, int tile, run total, int lane)
{
    if (lane == 0)
        states[tile] = pack(total.head || tile == 0 ? 2 : 1, total.sum);
    int before = 0;
    bool found = tile == 0;
    for (int base = tile - 1; !found; base -= 32) {
        word state;
        do {
            state = base >= lane ? states[base - lane] : pack(2, 0);
        } while (__any_sync(FULL, (state >> 32) == 0));
        const unsigned whole = __ballot_sync(FULL, (state >> 32) == 2);
        const int until = whole ? __ffs(whole) - 1 : 31;
        before += __reduce_add_sync(FULL, lane <= until ? static_cast<int>(state) : 0);
        found = whole != 0;
    }
    if (lane == 0 && !total.head && tile > 0)
        states[tile] = pack(2, before + total.sum);
    return before;
}

// 16 bytes to shared memory in the background.
__device__ __forceinline__ void copy_async(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from) : "memory");
}

// Resident blocks draw tiles in order, one ahead, which is on its way to shared memory while a block waits for the sums
// before its own. A thread reads only what it has copied itself.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    scan(const int *__restrict__ keys, const int *__restrict__ values, int *__restrict__ sums, word *states, int *ticket,
         int n, int tiles)
{
    extern __shared__ __align__(16) int4 stages[];
    __shared__ int totals[WARPS], heads[WARPS], drawn[2];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const auto start_tile = [&](int turn) {
        const int tile = drawn[turn % 2], first = tile * TILE + warp * (TILE / WARPS) + lane * 4;
        if (tile < tiles && (tile + 1) * static_cast<long long>(TILE) <= n)
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                int4 *to = stages + (turn % 2 * 2 * CHUNKS + c) * THREADS + threadIdx.x;
                copy_async(to, keys + first + c * 128);
                copy_async(to + CHUNKS * THREADS, values + first + c * 128);
            }
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
        const int tile = drawn[turn % 2], first = tile * TILE + warp * (TILE / WARPS);
        if (tile >= tiles)
            return;
        const bool whole = (tile + 1) * static_cast<long long>(TILE) <= n;
        int next = 0;
        if (threadIdx.x == 0)
            next = atomicAdd(ticket, 1);
        int item[CHUNKS][4];
        unsigned marks[CHUNKS];
        run start[CHUNKS], running = {0, false};
        int last = 0;
        if (lane == 0 && first > 0 && first < n)
            last = keys[first - 1];
        asm volatile("cp.async.wait_group 1;" ::: "memory");
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = first + c * 128 + lane * 4;
            int key[4];
            if (whole) {
                const int4 *own_stage = stages + (turn % 2 * 2 * CHUNKS + c) * THREADS + threadIdx.x;
                const int4 k = own_stage[0], v = own_stage[CHUNKS * THREADS];
                key[0] = k.x, key[1] = k.y, key[2] = k.z, key[3] = k.w;
                item[c][0] = v.x, item[c][1] = v.y, item[c][2] = v.z, item[c][3] = v.w;
            } else {
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    key[e] = at + e < n ? keys[at + e] : 0;
                    item[c][e] = at + e < n ? values[at + e] : 0;
                }
            }
            int before = __shfl_up_sync(FULL, key[3], 1);
            if (lane == 0)
                before = last;
            last = __shfl_sync(FULL, key[3], 31);
            marks[c] =
                (at == 0 || key[0] != before) | (key[1] != key[0]) << 1 | (key[2] != key[1]) << 2 | (key[3] != key[2]) << 3;
            run own = {item[c][0], (marks[c] & 1) != 0};
#pragma unroll
            for (int e = 1; e < 4; e++)
                own = joined(own, {item[c][e], (marks[c] >> e & 1) != 0});
            const run upto = warp_inclusive(own, lane);
            const run left = shifted(upto, 1);
            start[c] = lane > 0 ? joined(running, left) : running;
            running =
                joined(running, {__shfl_sync(FULL, upto.sum, 31), __shfl_sync(FULL, static_cast<int>(upto.head), 31) != 0});
        }
        if (lane == 0) {
            totals[warp] = running.sum;
            heads[warp] = running.head;
        }
        __syncthreads();
        if (warp == 0) {
            const run own = {lane < WARPS ? totals[lane] : 0, lane < WARPS && heads[lane]};
            const run upto = warp_inclusive(own, lane);
            const run total = {__shfl_sync(FULL, upto.sum, 31), __shfl_sync(FULL, static_cast<int>(upto.head), 31) != 0};
            const int before = look_back(states, tile, total, lane);
            const run left = shifted(upto, 1);
            const run mine = lane > 0 ? joined({before, false}, left) : run{before, false};
            __syncwarp();
            if (lane < WARPS)
                totals[lane] = mine.sum;
            if (lane == 0)
                drawn[turn % 2] = next;
        }
        __syncthreads();
        start_tile(turn + 2);
        const int from = totals[warp];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = first + c * 128 + lane * 4;
            int sum = joined({from, false}, start[c]).sum;
            int out[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                sum = (marks[c] >> e & 1 ? 0 : sum) + item[c][e];
                out[e] = sum;
            }
            if (at + 3 < n) {
                __stcs(reinterpret_cast<int4 *>(sums + at), make_int4(out[0], out[1], out[2], out[3]));
            } else {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (at + e < n)
                        sums[at + e] = out[e];
            }
        }
        __syncthreads();
    }
}
