// Blocks do not wait for one another: the sum that is open where a tile begins comes from the 128 elements before it, which
// nearly always hold a head. A tile for which they do not goes on with zero and is marked; a second launch adds what was
// open, found by looking back over the tiles' sums. Each warp scans by one shuffle a step, its heads known from one ballot.
#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNKS 4
#define TILE (THREADS * CHUNKS * 4)
#define FULL 0xffffffffu

// Bit e: element e of four begins a run.
__device__ __forceinline__ unsigned marks_of(int before, const int4 &key)
{
    return (key.x != before) | (key.y != key.x) << 1 | (key.z != key.y) << 2 | (key.w != key.z) << 3;
}

// The sum of four since the last head among them.
__device__ __forceinline__ int open_sum(unsigned marks, const int4 &value)
{
    int sum = value.x;
    sum = (marks & 2 ? 0 : sum) + value.y;
    sum = (marks & 4 ? 0 : sum) + value.z;
    return (marks & 8 ? 0 : sum) + value.w;
}

// The sums since the last head, or since the warp's first lane.
__device__ __forceinline__ int scan_runs(int sum, unsigned heads, int lane)
{
    const unsigned upto = heads & (FULL >> (31 - lane));
    const int start = upto ? 31 - __clz(upto) : 0;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(FULL, sum, distance);
        if (lane - distance >= start)
            sum += other;
    }
    return sum;
}

__device__ __forceinline__ int4 load_four(const int *__restrict__ from, int at, int n)
{
    if (at + 3 < n)
        return __ldcs(reinterpret_cast<const int4 *>(from + at));
    return make_int4(at < n ? from[at] : 0, at + 1 < n ? from[at + 1] : 0, at + 2 < n ? from[at + 2] : 0, 0);
}

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    scan(const int *__restrict__ keys, const int *__restrict__ values, int *__restrict__ sums, int2 *__restrict__ tails,
         int *__restrict__ marked, int n)
{
    __shared__ int totals[WARPS], heads[WARPS];
    __shared__ int shared_open;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int base = blockIdx.x * TILE, first = base + warp * (TILE / WARPS);
    int4 key[CHUNKS], value[CHUNKS];
    if (base + TILE <= n) {
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const int at = first + c * 128 + lane * 4;
            key[c] = __ldcs(reinterpret_cast<const int4 *>(keys + at));
            value[c] = __ldcs(reinterpret_cast<const int4 *>(values + at));
        }
    } else {
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            key[c] = load_four(keys, first + c * 128 + lane * 4, n);
            value[c] = load_four(values, first + c * 128 + lane * 4, n);
        }
    }
    int last = lane == 0 && first > 0 && first < n ? keys[first - 1] : 0;
    if (warp == 0) {
        int open = 0;
        bool known = true;
        if (base > 0) {
            const int at = base - 128 + lane * 4;
            const int4 k = __ldg(reinterpret_cast<const int4 *>(keys + at));
            const int4 v = __ldg(reinterpret_cast<const int4 *>(values + at));
            const int before = __shfl_up_sync(FULL, k.w, 1);
            const unsigned marks = marks_of(lane > 0 ? before : k.x, k);
            const unsigned any = __ballot_sync(FULL, marks != 0);
            open = __shfl_sync(FULL, scan_runs(open_sum(marks, v), any, lane), 31);
            // A head as the tile's first element needs nothing from before it.
            known = any != 0 || __shfl_sync(FULL, key[0].x, 0) != __shfl_sync(FULL, k.w, 31);
        }
        if (lane == 0) {
            shared_open = known ? open : 0;
            marked[blockIdx.x] = !known;
        }
    }
    // Sums before each chunk of four; the bits of `loose` say where no head of the warp's stretch comes before them.
    int start[CHUNKS], running = 0;
    unsigned marks[CHUNKS], loose = 0;
    bool closed = false;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int before = __shfl_up_sync(FULL, key[c].w, 1);
        marks[c] = marks_of(lane > 0 ? before : last, key[c]);
        if (first + c * 128 + lane == 0)
            marks[c] |= 1;
        last = __shfl_sync(FULL, key[c].w, 31);
        const unsigned chunk_heads = __ballot_sync(FULL, marks[c] != 0);
        const int upto = scan_runs(open_sum(marks[c], value[c]), chunk_heads, lane);
        const int left = __shfl_up_sync(FULL, upto, 1);
        const bool own = (chunk_heads & ((1u << lane) - 1)) != 0;
        start[c] = (lane > 0 ? left : 0) + (own ? 0 : running);
        loose |= static_cast<unsigned>(!own && !closed) << c;
        running = __shfl_sync(FULL, upto, 31) + (chunk_heads ? 0 : running);
        closed = closed || chunk_heads;
    }
    if (lane == 0) {
        totals[warp] = running;
        heads[warp] = closed;
    }
    __syncthreads();
    // What is open where the warp's stretch begins: the sums of the warps from the last with a head.
    const int total = lane < WARPS ? totals[lane] : 0;
    const unsigned with_head = __ballot_sync(FULL, lane < WARPS && heads[lane]);
    const unsigned earlier = with_head & ((1u << warp) - 1);
    const int from = earlier ? 31 - __clz(earlier) : 0;
    const int open =
        __reduce_add_sync(FULL, lane >= from && lane < warp ? total : 0) + (earlier ? 0 : shared_open);
    if (warp == 0) {
        const int from_last = with_head ? 31 - __clz(with_head) : 0;
        const int tail = __reduce_add_sync(FULL, lane >= from_last ? total : 0);
        if (lane == 0)
            tails[blockIdx.x] = make_int2(tail, with_head != 0);
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = first + c * 128 + lane * 4;
        int4 out;
        out.x = (marks[c] & 1 ? 0 : start[c] + (loose >> c & 1 ? open : 0)) + value[c].x;
        out.y = (marks[c] & 2 ? 0 : out.x) + value[c].y;
        out.z = (marks[c] & 4 ? 0 : out.y) + value[c].z;
        out.w = (marks[c] & 8 ? 0 : out.z) + value[c].w;
        if (at + 3 < n) {
            __stcs(reinterpret_cast<int4 *>(sums + at), out);
        } else {
            if (at < n)
                sums[at] = out.x;
            if (at + 1 < n)
                sums[at + 1] = out.y;
            if (at + 2 < n)
                sums[at + 2] = out.z;
        }
    }
}

// Adds what was open to the elements of marked tiles that come before their first head.
extern "C" __global__ void __launch_bounds__(THREADS)
    mend(const int *__restrict__ keys, int *__restrict__ sums, const int2 *__restrict__ tails,
         const int *__restrict__ marked, int n, int tiles)
{
    __shared__ int shared_open, shared_first;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int group = blockIdx.x; group < tiles; group += gridDim.x * THREADS) {
        const int own = group + threadIdx.x * gridDim.x;
        if (!__syncthreads_or(own < tiles && marked[own]))
            continue;
        for (int tile = group; tile < min(tiles, group + static_cast<int>(gridDim.x) * THREADS); tile += gridDim.x) {
            if (!marked[tile])
                continue;
            if (warp == 0) {
                int open = 0;
                bool found = false;
                for (int last = tile - 1; !found; last -= 32) {
                    const int2 tail = last >= lane ? tails[last - lane] : make_int2(0, 1);
                    const unsigned with_head = __ballot_sync(FULL, tail.y);
                    const int until = with_head ? __ffs(with_head) - 1 : 31;
                    open += __reduce_add_sync(FULL, lane <= until ? tail.x : 0);
                    found = with_head != 0;
                }
                if (lane == 0) {
                    shared_open = open;
                    shared_first = n;
                }
            }
            __syncthreads();
            const int base = tile * TILE, end = min(base + TILE, n);
            for (int i = base + threadIdx.x; i < end; i += THREADS)
                if (keys[i] != keys[i - 1])
                    atomicMin(&shared_first, i);
            __syncthreads();
            for (int i = base + threadIdx.x; i < min(end, shared_first); i += THREADS)
                sums[i] += shared_open;
            __syncthreads();
        }
    }
}
