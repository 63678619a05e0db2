// One pass with look-back. Heads are listed in shared memory, so that runs are written together, and a run's length
// comes from the next head in the list. A block stays, and a bulk copy brings its next tile while it works on this
// one.
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

// The tile and the four values before it.
__device__ __forceinline__ void request_tile(int *to, const int *values, int tile, int n, const word *barrier)
{
    const int before = tile > 0 ? 4 : 0, size = min(TILE, n - tile * TILE) & ~3;
    request(to + 4 - before, values + tile * TILE - before, (before + size) * 4, barrier);
}

// A state: two bits (1: this tile alone, 2: with all before it), then the heads and the last head's place plus one.
__device__ __forceinline__ word pack(word flag, int heads, int last)
{
    return flag << 62 | static_cast<word>(heads) << 31 | static_cast<word>(last);
}

__device__ __forceinline__ int heads_of(word state)
{
    return static_cast<int>(state >> 31 & 0x7fffffff);
}

__device__ __forceinline__ int last_of(word state)
{
    return static_cast<int>(state & 0x7fffffff);
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

__device__ __forceinline__ void look_back(volatile word *states, int tile, int heads, int last, int lane,
                                          int &heads_before, int &last_before)
{
    heads_before = last_before = 0;
    bool found = tile == 0;
    for (int base = tile - 1; !found; base -= 32) {
        word state;
        do {
            state = base >= lane ? states[base - lane] : pack(2, 0, 0);
        } while (__any_sync(FULL, (state >> 62) == 0));
        const unsigned whole = __ballot_sync(FULL, (state >> 62) == 2);
        const int until = whole ? __ffs(whole) - 1 : 31;
        heads_before += __reduce_add_sync(FULL, lane <= until ? heads_of(state) : 0);
        last_before = max(last_before, __reduce_max_sync(FULL, lane <= until ? last_of(state) : 0));
        found = whole != 0;
    }
    if (lane == 0)
        states[tile] = pack(2, heads_before + heads, max(last_before, last));
}

extern "C" __global__ void __launch_bounds__(THREADS, 3)
    encode(const int *__restrict__ values, int *__restrict__ run_values, int *__restrict__ run_lengths,
           int *__restrict__ count, word *states, int *ticket, int n)
{
    extern __shared__ __align__(128) int next_values[];
    int *head_value = next_values + TILE + 4;
    unsigned short *head_place = reinterpret_cast<unsigned short *>(head_value + TILE);
    __shared__ word full;
    __shared__ int warp_heads[WARPS], warp_last[WARPS];
    __shared__ int shared_tile, shared_heads, shared_last;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int tiles = (n + TILE - 1) / TILE;
    if (threadIdx.x == 32) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(&full)) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        const int tile = atomicAdd(ticket, 1);
        shared_tile = tile;
        if (tile < tiles)
            request_tile(next_values, values, tile, n, &full);
    }
    __syncthreads();
    int parity = 0;
    for (int tile = shared_tile; tile < tiles; tile = shared_tile, parity ^= 1) {
        const int local = warp * (TILE / WARPS) + lane * 4, base = tile * TILE, size = min(TILE, n - base);
        int item[CHUNKS][4];
        unsigned head[CHUNKS], counts = 0;
        int last = 0;
        wait_for(&full, parity);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = local + c * 128;
            if (at + 3 < size) {
                const int4 four = *reinterpret_cast<const int4 *>(next_values + 4 + at);
                item[c][0] = four.x, item[c][1] = four.y, item[c][2] = four.z, item[c][3] = four.w;
            } else {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    item[c][e] = at + e < size ? values[base + at + e] : 0;
            }
            int before = __shfl_up_sync(FULL, item[c][3], 1);
            if (lane == 0)
                before = base + at > 0 && at < size ? next_values[3 + at] : 0;
            head[c] = at < size && (base + at == 0 || item[c][0] != before);
#pragma unroll
            for (int e = 1; e < 4; e++)
                head[c] |= static_cast<unsigned>(at + e < size && item[c][e] != item[c][e - 1]) << e;
            counts |= __popc(head[c]) << c * 8;
            last = head[c] ? at + 32 - __clz(head[c]) : last;
        }
        // Four counts a word: none of a warp's chunk exceeds 128.
        unsigned upto = warp_inclusive(counts, lane);
        const unsigned all = __shfl_sync(FULL, upto, 31);
        last = __reduce_max_sync(FULL, last);
        if (lane == 0) {
            warp_heads[warp] = (all & 0xff) + (all >> 8 & 0xff) + (all >> 16 & 0xff) + (all >> 24);
            warp_last[warp] = last > 0 ? base + last : 0;
        }
        __syncthreads();
        if (threadIdx.x == 32) {
            const int next = atomicAdd(ticket, 1);
            shared_tile = next;
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            if (next < tiles)
                request_tile(next_values, values, next, n, &full);
        }
        const int own_heads = lane < WARPS ? warp_heads[lane] : 0;
        const int heads = __reduce_add_sync(FULL, own_heads);
        const int tile_last = __reduce_max_sync(FULL, lane < WARPS ? warp_last[lane] : 0);
        if (threadIdx.x == 0 && tile > 0)
            *reinterpret_cast<volatile word *>(states + tile) = pack(1, heads, tile_last);
        int start = __reduce_add_sync(FULL, lane < warp ? own_heads : 0);
        upto -= counts;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            int place = start + (upto >> c * 8 & 0xff);
            start += all >> c * 8 & 0xff;
#pragma unroll
            for (int e = 0; e < 4; e++) {
                if (head[c] >> e & 1) {
                    head_value[place] = item[c][e];
                    head_place[place] = static_cast<unsigned short>(local + c * 128 + e);
                    place++;
                }
            }
        }
        if (warp == 0) {
            int heads_before, last_before;
            look_back(states, tile, heads, tile_last, lane, heads_before, last_before);
            if (lane == 0) {
                shared_heads = heads_before;
                shared_last = last_before;
                if (tile == tiles - 1) {
                    const int runs = heads_before + heads;
                    *count = runs;
                    run_lengths[runs - 1] = n - (max(last_before, tile_last) - 1);
                }
            }
        }
        __syncthreads();
        const int first = shared_heads, open = shared_last - 1;
#pragma unroll 4
        for (int k = threadIdx.x; k < heads; k += THREADS) {
            run_values[first + k] = head_value[k];
            const int previous = k > 0 ? base + head_place[k - 1] : open;
            if (first + k > 0)
                run_lengths[first + k - 1] = base + head_place[k] - previous;
        }
    }
}
