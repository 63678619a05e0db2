// One pass with look-back. A block stays and takes tile after tile: bulk copies bring the next one while this one
// waits for the open sum before it, so that reading never stops.
#define THREADS 512
#define WARPS (THREADS / 32)
#define CHUNKS 3
#define TILE (THREADS * CHUNKS * 4)
#define FULL 0xffffffffu

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

// The tile's keys with the four before it, and its values.
__device__ __forceinline__ void request_tile(int *to, const int *keys, const int *values, int tile, int n,
                                             const word *barrier)
{
    const int before = tile > 0 ? 4 : 0, size = min(TILE, n - tile * TILE) & ~3;
    request(to + 4 - before, keys + tile * TILE - before, (before + size) * 4, barrier);
    request(to + 4 + TILE, values + tile * TILE, size * 4, barrier);
}

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

__device__ __forceinline__ int look_back(volatile word *states, int tile, run total, int lane)
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

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    scan(const int *__restrict__ keys, const int *__restrict__ values, int *__restrict__ sums, word *states, int *ticket,
         int n)
{
    extern __shared__ __align__(128) int next_keys[];
    const int *next_values = next_keys + 4 + TILE;
    __shared__ word full;
    __shared__ int totals[WARPS], heads[WARPS];
    __shared__ int shared_tile;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int tiles = (n + TILE - 1) / TILE;
    if (threadIdx.x == 32) {
        asm volatile("mbarrier.init.shared.b64 [%0], 2;" ::"r"(shared_address(&full)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        const int tile = atomicAdd(ticket, 1);
        shared_tile = tile;
        if (tile < tiles)
            request_tile(next_keys, keys, values, tile, n, &full);
    }
    __syncthreads();
    int parity = 0;
    for (int tile = shared_tile; tile < tiles; tile = shared_tile, parity ^= 1) {
        const int local = warp * (TILE / WARPS) + lane * 4, base = tile * TILE, size = min(TILE, n - base);
        int item[CHUNKS][4];
        unsigned marks[CHUNKS];
        run start[CHUNKS], running = {0, false};
        wait_for(&full, parity);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = local + c * 128;
            int key[4];
            if (at + 3 < size) {
                const int4 k = *reinterpret_cast<const int4 *>(next_keys + 4 + at);
                const int4 v = *reinterpret_cast<const int4 *>(next_values + at);
                key[0] = k.x, key[1] = k.y, key[2] = k.z, key[3] = k.w;
                item[c][0] = v.x, item[c][1] = v.y, item[c][2] = v.z, item[c][3] = v.w;
            } else {
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    key[e] = at + e < size ? keys[base + at + e] : 0;
                    item[c][e] = at + e < size ? values[base + at + e] : 0;
                }
            }
            int before = __shfl_up_sync(FULL, key[3], 1);
            if (lane == 0)
                before = base + at > 0 && at < size ? next_keys[3 + at] : 0;
            marks[c] = (base + at == 0 || key[0] != before) | (key[1] != key[0]) << 1 | (key[2] != key[1]) << 2 |
                       (key[3] != key[2]) << 3;
            run own = {item[c][0], (marks[c] & 1) != 0};
#pragma unroll
            for (int e = 1; e < 4; e++)
                own = joined(own, {item[c][e], (marks[c] >> e & 1) != 0});
            // Which lanes have heads is one vote; a lane's sum goes back to the last of them.
            const unsigned with = __ballot_sync(FULL, own.head);
            const unsigned to_here = with & (FULL >> (31 - lane));
            const int since = to_here ? 31 - __clz(to_here) : 0;
            int upto = own.sum;
#pragma unroll
            for (int distance = 1; distance < 32; distance *= 2) {
                const int other = __shfl_up_sync(FULL, upto, distance);
                if (lane - distance >= since)
                    upto += other;
            }
            const int left = __shfl_up_sync(FULL, upto, 1), last = __shfl_sync(FULL, upto, 31);
            const bool left_head = (with & ((1u << lane) - 1)) != 0;
            start[c] = lane > 0 ? joined(running, {left, left_head}) : running;
            running = joined(running, {last, with != 0});
        }
        if (lane == 0) {
            totals[warp] = running.sum;
            heads[warp] = running.head;
        }
        __syncthreads();
        if (threadIdx.x == 32) {
            const int next = atomicAdd(ticket, 1);
            shared_tile = next;
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            if (next < tiles)
                request_tile(next_keys, keys, values, next, n, &full);
        }
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
        }
        __syncthreads();
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = local + c * 128;
            int sum = joined({totals[warp], false}, start[c]).sum;
            int out[4];
#pragma unroll
            for (int e = 0; e < 4; e++) {
                sum = (marks[c] >> e & 1 ? 0 : sum) + item[c][e];
                out[e] = sum;
            }
            if (at + 3 < size) {
                __stcs(reinterpret_cast<int4 *>(sums + base + at), make_int4(out[0], out[1], out[2], out[3]));
            } else {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (at + e < size)
                        sums[base + at + e] = out[e];
            }
        }
    }
}
