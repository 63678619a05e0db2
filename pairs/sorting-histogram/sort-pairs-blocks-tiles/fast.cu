#define THREADS 256
#define WARPS (THREADS / 32)
#define DIGITS 256
#define ROUNDS 16
#define TILE (THREADS * ROUNDS)
#define FULL 0xffffffffu

extern "C" __global__ void __launch_bounds__(THREADS)
    count_digits(const unsigned *__restrict__ keys, int *__restrict__ counts, int n, int shift)
{
    __shared__ int bins[DIGITS];
    bins[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        const int at = blockIdx.x * TILE + r * THREADS + threadIdx.x;
        if (at < n)
            atomicAdd(bins + (keys[at] >> shift & 255), 1);
    }
    __syncthreads();
    counts[threadIdx.x * gridDim.x + blockIdx.x] = bins[threadIdx.x];
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

__device__ __forceinline__ int block_exclusive(int own, int *totals)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int upto = warp_inclusive(own, lane);
    if (lane == 31)
        totals[warp] = upto;
    __syncthreads();
    int before = upto - own;
    for (int w = 0; w < warp; w++)
        before += totals[w];
    return before;
}

// One block per digit: first the sum of its counts, then, with the sums of all, where each tile's items go.
extern "C" __global__ void __launch_bounds__(THREADS)
    sum_digits(const int *__restrict__ counts, int *__restrict__ sums, int tiles)
{
    __shared__ int totals[WARPS];
    int sum = 0;
    for (int t = threadIdx.x; t < tiles; t += THREADS)
        sum += counts[blockIdx.x * tiles + t];
    const int before = block_exclusive(sum, totals);
    if (threadIdx.x == THREADS - 1)
        sums[blockIdx.x] = before + sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    scan_digit(int *__restrict__ counts, const int *__restrict__ sums, int tiles)
{
    __shared__ int first[WARPS], totals[2][WARPS];
    int below = threadIdx.x < blockIdx.x ? sums[threadIdx.x] : 0;
    below = __reduce_add_sync(FULL, below);
    if (threadIdx.x % 32 == 0)
        first[threadIdx.x / 32] = below;
    __syncthreads();
    int running = 0;
    for (int w = 0; w < WARPS; w++)
        running += first[w];
    int turn = 0;
    for (int base = 0; base < tiles; base += THREADS, turn ^= 1) {
        const int t = base + threadIdx.x;
        const int own = t < tiles ? counts[blockIdx.x * tiles + t] : 0;
        const int before = block_exclusive(own, totals[turn]);
        if (t < tiles)
            counts[blockIdx.x * tiles + t] = running + before;
        for (int w = 0; w < WARPS; w++)
            running += totals[turn][w];
    }
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
    scatter(const unsigned *__restrict__ keys, const unsigned *__restrict__ values, const int *__restrict__ offsets,
            unsigned *__restrict__ to_keys, unsigned *__restrict__ to_values, int n, int shift)
{
    __shared__ int bins[WARPS][DIGITS];
    __shared__ unsigned staged[TILE];
    __shared__ int starts[DIGITS];
    __shared__ int totals[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        bins[w][threadIdx.x] = 0;
    __syncthreads();
    const int base = blockIdx.x * TILE;
    const int first = base + warp * (32 * ROUNDS) + lane;

    unsigned item[ROUNDS];
    int rank[ROUNDS];
#pragma unroll
    for (int r = 0; r < ROUNDS; r++)
        item[r] = first + r * 32 < n ? __ldcs(keys + first + r * 32) : 0xffffffffu;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        const int digit = (item[r] >> shift) & 0xff;
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
    const int start = block_exclusive(total, totals);
    starts[threadIdx.x] = offsets[threadIdx.x * gridDim.x + blockIdx.x] - start;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        bins[w][threadIdx.x] += start;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        rank[r] += bins[warp][(item[r] >> shift) & 0xff];
        staged[rank[r]] = item[r];
    }
    __syncthreads();
    const int count = min(TILE, n - base);
    int place[ROUNDS];
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        const int at = r * THREADS + threadIdx.x;
        if (at < count) {
            const unsigned key = staged[at];
            place[r] = starts[(key >> shift) & 0xff] + at;
            to_keys[place[r]] = key;
        }
    }
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++)
        staged[rank[r]] = first + r * 32 < n ? __ldcs(values + first + r * 32) : 0;
    __syncthreads();
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
        const int at = r * THREADS + threadIdx.x;
        if (at < count)
            to_values[place[r]] = staged[at];
    }
}
