#define THREADS 256
#define WARPS (THREADS / 32)
#define CHUNKS 4
#define TILE (THREADS * CHUNKS * 4)
#define LANES 8
#define FULL 0xffffffffu

typedef unsigned long long word;

// The rank of an entry among those of its column, in the order in which they come.
extern "C" __global__ void __launch_bounds__(THREADS)
    count(const int *__restrict__ columns, int *__restrict__ counts, int *__restrict__ ranks, int nnz)
{
    const int first = (blockIdx.x * THREADS + threadIdx.x) * 4;
    if (first + 3 < nnz) {
        const int4 column = __ldg(reinterpret_cast<const int4 *>(columns + first));
        int4 rank;
        rank.x = atomicAdd(counts + column.x, 1);
        rank.y = atomicAdd(counts + column.y, 1);
        rank.z = atomicAdd(counts + column.z, 1);
        rank.w = atomicAdd(counts + column.w, 1);
        *reinterpret_cast<int4 *>(ranks + first) = rank;
    } else {
        for (int e = first; e < nnz; e++)
            ranks[e] = atomicAdd(counts + columns[e], 1);
    }
}

__device__ __forceinline__ word pack(int flag, int value)
{
    return static_cast<word>(flag) << 32 | static_cast<unsigned>(value);
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

__device__ int look_back(volatile word *states, int tile, int total, int lane)
{
    int before = 0;
    if (tile > 0) {
        if (lane == 0)
            states[tile] = pack(1, total);
        bool found = false;
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
    }
    if (lane == 0)
        states[tile] = pack(2, before + total);
    return before;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    scan(const int *__restrict__ counts, int *__restrict__ offsets, word *states, int *ticket, int cols, int nnz)
{
    __shared__ int totals[WARPS];
    __shared__ int shared_tile;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        shared_tile = atomicAdd(ticket, 1);
    __syncthreads();
    const int tile = shared_tile;
    const int first = tile * TILE + warp * (TILE / WARPS);
    int item[CHUNKS * 4], start[CHUNKS * 4], running = 0;
#pragma unroll
    for (int c = 0; c < CHUNKS * 4; c++) {
        const int at = first + c * 32 + lane;
        item[c] = at < cols ? counts[at] : 0;
    }
#pragma unroll
    for (int c = 0; c < CHUNKS * 4; c++) {
        const int upto = warp_inclusive(item[c], lane);
        start[c] = running + upto - item[c];
        running += __shfl_sync(FULL, upto, 31);
    }
    if (lane == 0)
        totals[warp] = running;
    __syncthreads();
    if (warp == 0) {
        const int own = lane < WARPS ? totals[lane] : 0;
        const int upto = warp_inclusive(own, lane);
        const int before = look_back(states, tile, __shfl_sync(FULL, upto, 31), lane);
        if (lane < WARPS)
            totals[lane] = before + upto - own;
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < CHUNKS * 4; c++) {
        const int at = first + c * 32 + lane;
        if (at < cols)
            offsets[at] = totals[warp] + start[c];
    }
    if (tile == 0 && threadIdx.x == 0)
        offsets[cols] = nnz;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    scatter(const int *__restrict__ offsets, const int *__restrict__ columns, const float *__restrict__ values,
            const int *__restrict__ t_offsets, const int *__restrict__ ranks, int2 *__restrict__ mixed, int rows)
{
    const int row = blockIdx.x * (THREADS / LANES) + threadIdx.x / LANES;
    if (row >= rows)
        return;
    const int end = offsets[row + 1];
#pragma unroll 2
    for (int e = offsets[row] + threadIdx.x % LANES; e < end; e += LANES)
        mixed[__ldg(t_offsets + __ldcs(columns + e)) + __ldcs(ranks + e)] =
            make_int2(row, __float_as_int(__ldcs(values + e)));
}

// Each entry goes where as many entries stand before it as have a smaller row.
extern "C" __global__ void __launch_bounds__(THREADS)
    order(const int *__restrict__ t_offsets, const int2 *__restrict__ mixed, int *__restrict__ t_rows,
          float *__restrict__ t_values, int cols)
{
    const int lane = threadIdx.x % 32;
    const int column = blockIdx.x * WARPS + threadIdx.x / 32;
    if (column >= cols)
        return;
    const int begin = t_offsets[column], length = t_offsets[column + 1] - begin;
    for (int first = 0; first < length; first += 32) {
        const bool own = first + lane < length;
        const int2 entry = own ? mixed[begin + first + lane] : make_int2(0x7fffffff, 0);
        int place = 0;
        for (int other = 0; other < length; other += 32) {
            const int row = other == first          ? entry.x
                            : other + lane < length ? mixed[begin + other + lane].x
                                                    : 0x7fffffff;
            const int several = min(32, length - other);
            for (int k = 0; k < several; k++)
                place += __shfl_sync(FULL, row, k) < entry.x;
        }
        if (own) {
            t_rows[begin + place] = entry.x;
            t_values[begin + place] = __int_as_float(entry.y);
        }
    }
}
