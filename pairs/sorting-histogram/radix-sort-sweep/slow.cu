#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNKS 4
#define SCAN_TILE (THREADS * CHUNKS * 4)
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

extern "C" __global__ void __launch_bounds__(THREADS)
    scan(const int *__restrict__ values, int *__restrict__ sums, word *states, int *ticket, int n)
{
    __shared__ int warp_totals[WARPS];
    __shared__ int shared_tile;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        shared_tile = atomicAdd(ticket, 1);
    __syncthreads();
    const int tile = shared_tile;
    const int first = tile * SCAN_TILE + warp * (SCAN_TILE / WARPS) + lane * 4;
    const bool whole = (tile + 1) * static_cast<long long>(SCAN_TILE) <= n;

    int4 item[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = first + c * 128;
        if (whole) {
            item[c] = __ldcs(reinterpret_cast<const int4 *>(values + at));
        } else {
            item[c].x = at < n ? values[at] : 0;
            item[c].y = at + 1 < n ? values[at + 1] : 0;
            item[c].z = at + 2 < n ? values[at + 2] : 0;
            item[c].w = at + 3 < n ? values[at + 3] : 0;
        }
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
        const int at = first + c * 128;
        int4 sum;
        sum.x = before + start[c];
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

#define DIGITS 256
#define ROUNDS 16
#define TILE (THREADS * ROUNDS)

extern "C" __global__ void __launch_bounds__(THREADS)
    count_digits(const unsigned *__restrict__ keys, int *__restrict__ counts, int n, int shift)
{
    __shared__ int bins[DIGITS];
    bins[threadIdx.x] = 0;
    __syncthreads();
    const int base = blockIdx.x * TILE;
#pragma unroll
    for (int r = 0; r < ROUNDS; r += 4) {
        const int at = base + r * THREADS + threadIdx.x * 4;
        if (at + 3 < n) {
            const uint4 key = *reinterpret_cast<const uint4 *>(keys + at);
            atomicAdd(bins + ((key.x >> shift) & 0xff), 1);
            atomicAdd(bins + ((key.y >> shift) & 0xff), 1);
            atomicAdd(bins + ((key.z >> shift) & 0xff), 1);
            atomicAdd(bins + ((key.w >> shift) & 0xff), 1);
        } else {
            for (int k = at; k < n; k++)
                atomicAdd(bins + ((keys[k] >> shift) & 0xff), 1);
        }
    }
    __syncthreads();
    counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
}

__device__ __forceinline__ unsigned same_digit(int digit)
{
    unsigned peers = FULL;
#pragma unroll
    for (int bit = 0; bit < 8; bit++) {
        const bool set = (digit >> bit) & 1;
        const unsigned vote = __ballot_sync(FULL, set);
        peers &= set ? vote : ~vote;
    }
    return peers;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    scatter(const unsigned *__restrict__ keys, const int *__restrict__ offsets, unsigned *__restrict__ to, int n,
            int shift)
{
    __shared__ int bins[WARPS][DIGITS];
    __shared__ unsigned staged[TILE];
    __shared__ int starts[DIGITS];
    __shared__ int totals[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int base = blockIdx.x * TILE;
    const int first = base + warp * (32 * ROUNDS) + lane;
    for (int d = threadIdx.x; d < WARPS * DIGITS; d += THREADS)
        bins[d / DIGITS][d % DIGITS] = 0;

    unsigned key[ROUNDS];
    int rank[ROUNDS];
#pragma unroll
    for (int r = 0; r < ROUNDS; r++)
        key[r] = first + r * 32 < n ? keys[first + r * 32] : 0xffffffffu;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        const int digit = (key[r] >> shift) & 0xff;
        const unsigned peers = same_digit(digit);
        const int before = bins[warp][digit];
        const int within = __popc(peers & ((1u << lane) - 1));
        __syncwarp();
        if (within == 0)
            bins[warp][digit] = before + __popc(peers);
        __syncwarp();
        rank[r] = before + within;
    }
    __syncthreads();
    int total = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        const int count = bins[w][threadIdx.x];
        bins[w][threadIdx.x] = total;
        total += count;
    }
    const int upto = warp_inclusive(total, lane);
    if (lane == 31)
        totals[warp] = upto;
    __syncthreads();
    int start = upto - total;
    for (int w = 0; w < warp; w++)
        start += totals[w];
    starts[threadIdx.x] = offsets[threadIdx.x * gridDim.x + blockIdx.x] - start;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        bins[w][threadIdx.x] += start;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++)
        staged[bins[warp][(key[r] >> shift) & 0xff] + rank[r]] = key[r];
    __syncthreads();
    const int count = min(TILE, n - base);
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        const int at = r * THREADS + threadIdx.x;
        if (at < count) {
            const unsigned item = staged[at];
            to[starts[(item >> shift) & 0xff] + at] = item;
        }
    }
}
