// One pass with look-back. Heads are listed in shared memory with the tile's sum before each, so that groups are
// written together and a group's sum is the difference of two. A block stays, and bulk copies bring its next tile
// while it works on this one.
#define THREADS 512
#define WARPS (THREADS / 32)
#define CHUNKS 2
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

// The heads so far, and the sum since the last of them.
struct run {
    int heads, sum;
};

__device__ __forceinline__ run joined(run left, run right)
{
    return {left.heads + right.heads, right.heads ? right.sum : left.sum + right.sum};
}

__device__ __forceinline__ int warp_inclusive(int value, int lane)
{
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(FULL, value, distance);
        if (lane >= distance)
            value += other;
    }
    return value;
}

// Two bits (1: this tile alone, 2: with all before it), thirty of heads, thirty-two of the sum.
__device__ __forceinline__ word pack(word flag, run own)
{
    return flag << 62 | static_cast<word>(own.heads) << 32 | static_cast<unsigned>(own.sum);
}

__device__ __forceinline__ run look_back(volatile word *states, int tile, run total, int lane)
{
    run before = {0, 0};
    if (tile > 0) {
        if (lane == 0)
            states[tile] = pack(1, total);
        bool found = false, closed = false;
        for (int base = tile - 1; !found; base -= 32) {
            word state;
            do {
                state = base >= lane ? states[base - lane] : pack(2, {0, 0});
            } while (__any_sync(FULL, (state >> 62) == 0));
            const int heads = static_cast<int>(state >> 32 & 0x3fffffff), sum = static_cast<int>(state);
            const unsigned whole = __ballot_sync(FULL, (state >> 62) == 2);
            const unsigned stops = whole | __ballot_sync(FULL, heads > 0);
            const int until = whole ? __ffs(whole) - 1 : 31, stop = stops ? __ffs(stops) - 1 : 31;
            before.heads += __reduce_add_sync(FULL, lane <= until ? heads : 0);
            before.sum += __reduce_add_sync(FULL, !closed && lane <= stop ? sum : 0);
            closed = closed || stops != 0;
            found = whole != 0;
        }
    }
    if (lane == 0)
        states[tile] = pack(2, joined(before, total));
    return before;
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    reduce(const int *__restrict__ keys, const int *__restrict__ values, int *__restrict__ group_keys,
           int *__restrict__ sums, int *__restrict__ count, word *states, int *ticket, int n)
{
    extern __shared__ __align__(128) int next_keys[];
    const int *next_values = next_keys + 4 + TILE;
    int *head_key = next_keys + 4 + 2 * TILE, *head_sum = head_key + TILE;
    __shared__ word full;
    __shared__ int warp_heads[WARPS], warp_sums[WARPS];
    __shared__ int shared_tile, shared_heads, shared_open;
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
        int key[CHUNKS][4], item[CHUNKS][4], sum_before[CHUNKS], running = 0;
        unsigned head[CHUNKS], counts = 0;
        wait_for(&full, parity);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = local + c * 128;
            if (at + 3 < size) {
                const int4 k = *reinterpret_cast<const int4 *>(next_keys + 4 + at);
                const int4 v = *reinterpret_cast<const int4 *>(next_values + at);
                key[c][0] = k.x, key[c][1] = k.y, key[c][2] = k.z, key[c][3] = k.w;
                item[c][0] = v.x, item[c][1] = v.y, item[c][2] = v.z, item[c][3] = v.w;
            } else {
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    key[c][e] = at + e < size ? keys[base + at + e] : 0;
                    item[c][e] = at + e < size ? values[base + at + e] : 0;
                }
            }
            int before = __shfl_up_sync(FULL, key[c][3], 1);
            if (lane == 0)
                before = base + at > 0 && at < size ? next_keys[3 + at] : 0;
            head[c] = at < size && (base + at == 0 || key[c][0] != before);
#pragma unroll
            for (int e = 1; e < 4; e++)
                head[c] |= static_cast<unsigned>(at + e < size && key[c][e] != key[c][e - 1]) << e;
            counts |= __popc(head[c]) << c * 16;
            const int own = item[c][0] + item[c][1] + item[c][2] + item[c][3];
            const int upto = warp_inclusive(own, lane);
            sum_before[c] = running + upto - own;
            running += __shfl_sync(FULL, upto, 31);
        }
        unsigned upto = warp_inclusive(counts, lane);
        const unsigned all = __shfl_sync(FULL, upto, 31);
        if (lane == 0) {
            warp_heads[warp] = (all & 0xffff) + (all >> 16);
            warp_sums[warp] = running;
        }
        __syncthreads();
        if (threadIdx.x == 32) {
            const int next = atomicAdd(ticket, 1);
            shared_tile = next;
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            if (next < tiles)
                request_tile(next_keys, keys, values, next, n, &full);
        }
        const int own_heads = lane < WARPS ? warp_heads[lane] : 0, own_sum = lane < WARPS ? warp_sums[lane] : 0;
        const int heads = __reduce_add_sync(FULL, own_heads), tile_sum = __reduce_add_sync(FULL, own_sum);
        int start = __reduce_add_sync(FULL, lane < warp ? own_heads : 0);
        const int warp_before = __reduce_add_sync(FULL, lane < warp ? own_sum : 0);
        upto -= counts;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            int place = start + (upto >> c * 16 & 0xffff), sum = warp_before + sum_before[c];
            start += all >> c * 16 & 0xffff;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                if (head[c] >> e & 1) {
                    head_key[place] = key[c][e];
                    head_sum[place] = sum;
                    place++;
                }
                sum += item[c][e];
            }
        }
        __syncthreads();
        if (warp == 0) {
            const run total = {heads, heads > 0 ? tile_sum - head_sum[heads - 1] : tile_sum};
            const run before = look_back(states, tile, total, lane);
            if (lane == 0) {
                shared_heads = before.heads;
                shared_open = before.sum;
                if (tile == tiles - 1) {
                    const run whole = joined(before, total);
                    *count = whole.heads;
                    sums[whole.heads - 1] = whole.sum;
                }
            }
        }
        __syncthreads();
        const int first = shared_heads, open = shared_open;
#pragma unroll 4
        for (int k = threadIdx.x; k < heads; k += THREADS) {
            group_keys[first + k] = head_key[k];
            const int sum = head_sum[k] - (k > 0 ? head_sum[k - 1] : -open);
            if (first + k > 0)
                sums[first + k - 1] = sum;
        }
    }
}
