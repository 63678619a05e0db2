#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNKS 4
#define TILE (THREADS * CHUNKS * 4)
#define FULL 0xffffffffu

typedef unsigned long long word;

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

__device__ void look_back(volatile word *states, int tile, int heads, int last, int lane, int &heads_before,
                          int &last_before)
{
    heads_before = last_before = 0;
    if (tile > 0) {
        if (lane == 0)
            states[tile] = pack(1, heads, last);
        bool found = false;
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
    }
    if (lane == 0)
        states[tile] = pack(2, heads_before + heads, max(last_before, last));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    encode(const int *__restrict__ values, int *__restrict__ run_values, int *__restrict__ run_lengths,
           int *__restrict__ count, word *states, int *ticket, int n)
{
    __shared__ int warp_heads[WARPS], warp_last[WARPS];
    __shared__ int shared_tile;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        shared_tile = atomicAdd(ticket, 1);
    __syncthreads();
    const int tile = shared_tile;
    const int first = tile * TILE + warp * (TILE / WARPS);

    int4 item[CHUNKS];
    unsigned head[CHUNKS];
    int start[CHUNKS], heads = 0, last = 0, earlier[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = first + c * 128 + lane * 4;
        if (at + 3 < n) {
            item[c] = __ldcs(reinterpret_cast<const int4 *>(values + at));
        } else {
            item[c].x = at < n ? values[at] : 0;
            item[c].y = at + 1 < n ? values[at + 1] : 0;
            item[c].z = at + 2 < n ? values[at + 2] : 0;
            item[c].w = 0;
        }
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = first + c * 128 + lane * 4;
        int before = __shfl_up_sync(FULL, item[c].w, 1);
        const int chunk_before = c > 0 ? __shfl_sync(FULL, item[c > 0 ? c - 1 : 0].w, 31) : 0;
        if (lane == 0)
            before = c > 0 ? chunk_before : (at > 0 && at < n ? values[at - 1] : 0);
        head[c] = (at < n && (at == 0 || item[c].x != before) ? 1u : 0u) |
                  (at + 1 < n && item[c].y != item[c].x ? 2u : 0u) | (at + 2 < n && item[c].z != item[c].y ? 4u : 0u) |
                  (at + 3 < n && item[c].w != item[c].z ? 8u : 0u);
        const int own = __popc(head[c]);
        int upto = own;
        int upto_last = head[c] ? at + 32 - __clz(head[c]) : 0;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const int other = __shfl_up_sync(FULL, upto, distance);
            const int other_last = __shfl_up_sync(FULL, upto_last, distance);
            if (lane >= distance) {
                upto += other;
                upto_last = max(upto_last, other_last);
            }
        }
        start[c] = heads + upto - own;
        const int left_last = __shfl_up_sync(FULL, upto_last, 1);
        earlier[c] = max(last, lane > 0 ? left_last : 0);
        heads += __shfl_sync(FULL, upto, 31);
        last = max(last, __shfl_sync(FULL, upto_last, 31));
    }
    if (lane == 0) {
        warp_heads[warp] = heads;
        warp_last[warp] = last;
    }
    __syncthreads();
    if (warp == 0) {
        const int own = lane < WARPS ? warp_heads[lane] : 0;
        int upto = own, upto_last = lane < WARPS ? warp_last[lane] : 0;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const int other = __shfl_up_sync(FULL, upto, distance);
            const int other_last = __shfl_up_sync(FULL, upto_last, distance);
            if (lane >= distance) {
                upto += other;
                upto_last = max(upto_last, other_last);
            }
        }
        const int total = __shfl_sync(FULL, upto, 31), final_last = __shfl_sync(FULL, upto_last, 31);
        int heads_before, last_before;
        look_back(states, tile, total, final_last, lane, heads_before, last_before);
        const int left_last = __shfl_up_sync(FULL, upto_last, 1);
        if (lane < WARPS) {
            warp_heads[lane] = heads_before + upto - own;
            warp_last[lane] = max(last_before, lane > 0 ? left_last : 0);
        }
        if (lane == 0 && static_cast<long long>(tile + 1) * TILE >= n) {
            const int runs = heads_before + total;
            *count = runs;
            run_lengths[runs - 1] = n - (max(last_before, final_last) - 1);
        }
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = first + c * 128 + lane * 4;
        int place = warp_heads[warp] + start[c];
        int previous = max(warp_last[warp], earlier[c]) - 1;
        const int four[4] = {item[c].x, item[c].y, item[c].z, item[c].w};
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (head[c] >> e & 1) {
                run_values[place] = four[e];
                if (place > 0)
                    run_lengths[place - 1] = at + e - previous;
                previous = at + e;
                place++;
            }
        }
    }
}
