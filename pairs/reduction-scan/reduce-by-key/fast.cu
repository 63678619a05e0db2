#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNKS 4
#define TILE (THREADS * CHUNKS * 4)
#define FULL 0xffffffffu

typedef unsigned long long word;

// The heads so far, and the sum since the last of them.
struct run {
    int heads, sum;
};

__device__ __forceinline__ run joined(run left, run right)
{
    return {left.heads + right.heads, right.heads ? right.sum : left.sum + right.sum};
}

__device__ __forceinline__ run shifted(run own, int distance)
{
    return {__shfl_up_sync(FULL, own.heads, distance), __shfl_up_sync(FULL, own.sum, distance)};
}

__device__ __forceinline__ run last_lane(run own)
{
    return {__shfl_sync(FULL, own.heads, 31), __shfl_sync(FULL, own.sum, 31)};
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

extern "C" __global__ void __launch_bounds__(THREADS)
    reduce(const int *__restrict__ keys, const int *__restrict__ values, int *__restrict__ group_keys,
           int *__restrict__ sums, int *__restrict__ count, word *states, int *ticket, int n)
{
    __shared__ int warp_heads[WARPS], warp_sums[WARPS];
    __shared__ int shared_tile;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        shared_tile = atomicAdd(ticket, 1);
    __syncthreads();
    const int tile = shared_tile, first = tile * TILE + warp * (TILE / WARPS);
    int key[CHUNKS][4], item[CHUNKS][4];
    unsigned marks[CHUNKS];
    run start[CHUNKS], running = {0, 0};
    int last = lane == 0 && first > 0 && first < n ? keys[first - 1] : 0;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = first + c * 128 + lane * 4;
        if (at + 3 < n) {
            const int4 k = __ldcs(reinterpret_cast<const int4 *>(keys + at));
            const int4 v = __ldcs(reinterpret_cast<const int4 *>(values + at));
            key[c][0] = k.x, key[c][1] = k.y, key[c][2] = k.z, key[c][3] = k.w;
            item[c][0] = v.x, item[c][1] = v.y, item[c][2] = v.z, item[c][3] = v.w;
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                key[c][e] = at + e < n ? keys[at + e] : 0;
                item[c][e] = at + e < n ? values[at + e] : 0;
            }
        }
        int before = __shfl_up_sync(FULL, key[c][3], 1);
        if (lane == 0)
            before = last;
        last = __shfl_sync(FULL, key[c][3], 31);
        marks[c] = at < n && (at == 0 || key[c][0] != before);
        run own = {static_cast<int>(marks[c]), item[c][0]};
#pragma unroll
        for (int e = 1; e < 4; e++) {
            const bool head = at + e < n && key[c][e] != key[c][e - 1];
            marks[c] |= static_cast<unsigned>(head) << e;
            own = joined(own, {head, item[c][e]});
        }
        const run upto = warp_inclusive(own, lane), left = shifted(upto, 1);
        start[c] = lane > 0 ? joined(running, left) : running;
        running = joined(running, last_lane(upto));
    }
    if (lane == 0) {
        warp_heads[warp] = running.heads;
        warp_sums[warp] = running.sum;
    }
    __syncthreads();
    if (warp == 0) {
        const run own = {lane < WARPS ? warp_heads[lane] : 0, lane < WARPS ? warp_sums[lane] : 0};
        const run upto = warp_inclusive(own, lane), total = last_lane(upto);
        const run before = look_back(states, tile, total, lane), left = shifted(upto, 1);
        const run mine = lane > 0 ? joined(before, left) : before;
        __syncwarp();
        if (lane < WARPS) {
            warp_heads[lane] = mine.heads;
            warp_sums[lane] = mine.sum;
        }
        if (lane == 0 && static_cast<long long>(tile + 1) * TILE >= n) {
            const run all = joined(before, total);
            *count = all.heads;
            sums[all.heads - 1] = all.sum;
        }
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        run now = joined({warp_heads[warp], warp_sums[warp]}, start[c]);
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (marks[c] >> e & 1) {
                if (now.heads > 0)
                    sums[now.heads - 1] = now.sum;
                group_keys[now.heads] = key[c][e];
                now = {now.heads + 1, item[c][e]};
            } else {
                now.sum += item[c][e];
            }
        }
    }
}
