// A warp a row: keys go to 1024 bins by their leading bits within the row's range, about one a bin, with one atomic a key.
// Then a lane has 32 keys in a row in registers, and as many rounds of odd-even transposition as the fullest bin has
// keys, about seven, put all bins in order. Rows with a crowded bin go through a bitonic network instead.
#define WARPS 4
#define WIDTH 1024
#define CROWD 24
#define FULL 0xffffffffu

__device__ __forceinline__ void order(int &a, int &b)
{
    const int low = min(a, b);
    b = max(a, b);
    a = low;
}

template <int DISTANCE>
__device__ __forceinline__ void merge_registers(int (&key)[32])
{
#pragma unroll
    for (int i = 0; i < 32; i++)
        if ((i & DISTANCE) == 0)
            order(key[i], key[i | DISTANCE]);
    if constexpr (DISTANCE > 1)
        merge_registers<DISTANCE / 2>(key);
}

template <int SIZE>
__device__ __forceinline__ void sort_registers(int (&key)[32])
{
#pragma unroll
    for (int i = 0; i < 32; i++)
        if ((i & (SIZE / 2)) == 0)
            order(key[i], key[i ^ (SIZE - 1)]);
    if constexpr (SIZE > 2)
        merge_registers<SIZE / 4>(key);
    if constexpr (SIZE < 32)
        sort_registers<SIZE * 2>(key);
}

template <int LANES>
__device__ __forceinline__ void merge_lanes(int (&key)[32], int lane)
{
    const bool lower = (lane & (LANES / 2)) == 0;
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const int a = __shfl_xor_sync(FULL, key[31 - i], LANES - 1);
        const int b = __shfl_xor_sync(FULL, key[i], LANES - 1);
        key[i] = lower ? min(key[i], a) : max(key[i], a);
        key[31 - i] = lower ? min(key[31 - i], b) : max(key[31 - i], b);
    }
#pragma unroll
    for (int distance = LANES / 4; distance > 0; distance /= 2) {
        const bool first = (lane & distance) == 0;
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const int other = __shfl_xor_sync(FULL, key[i], distance);
            key[i] = first ? min(key[i], other) : max(key[i], other);
        }
    }
    merge_registers<16>(key);
    if constexpr (LANES < 32)
        merge_lanes<LANES * 2>(key, lane);
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

// Counts become the sums of those before them. Returns the largest count.
__device__ __forceinline__ int scan_bins(int *bins, int lane)
{
    int running = 0, largest = 0;
#pragma unroll
    for (int r = 0; r < WIDTH / 128; r++) {
        int4 *own = reinterpret_cast<int4 *>(bins) + r * 32 + lane;
        const int4 item = *own;
        largest = max(largest, max(max(item.x, item.y), max(item.z, item.w)));
        const int sum = item.x + item.y + item.z + item.w;
        const int upto = warp_inclusive(sum, lane);
        int4 start;
        start.x = running + upto - sum;
        start.y = start.x + item.x;
        start.z = start.y + item.y;
        start.w = start.z + item.z;
        *own = start;
        running += __shfl_sync(FULL, upto, 31);
    }
    return __reduce_max_sync(FULL, largest);
}

// A row of WIDTH keys if WHOLE. Bins lie where keys are staged later, a lane's 32 with one word between lanes.
template <bool WHOLE>
__device__ __forceinline__ void sort_row(const int *__restrict__ from, int *__restrict__ to, int width, int *staged,
                                         int lane)
{
    int key[32], least = 0x7fffffff, most = -0x7fffffff - 1;
#pragma unroll
    for (int i = 0; i < 32; i++)
        key[i] = WHOLE || lane < width - i * 32 ? __ldcs(from + i * 32 + lane) : 0x7fffffff;
#pragma unroll
    for (int r = 0; r < WIDTH / 128; r++)
        reinterpret_cast<int4 *>(staged)[r * 32 + lane] = make_int4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < 32; i++) {
        least = min(least, key[i]);
        most = max(most, WHOLE || lane < width - i * 32 ? key[i] : -0x7fffffff - 1);
    }
    unsigned low = __reduce_min_sync(FULL, least);
    const unsigned range = __reduce_max_sync(FULL, most) - low;
    const int shift = max(0, 22 - __clz(range));
    __syncwarp();
    // Ranks within bins, six a word: they have five bits unless a bin is crowded.
    unsigned ranks[6] = {};
#pragma unroll
    for (int i = 0; i < 32; i++)
        if (WHOLE || lane < width - i * 32)
            ranks[i / 6] += atomicAdd(staged + ((key[i] - low) >> shift), 1) << i % 6 * 5;
    __syncwarp();
    const int largest = scan_bins(staged, lane);
    __syncwarp();
    if (largest <= CROWD) {
        // Else the compiler keeps all bins from above, in more registers than there are.
        asm volatile("" : "+r"(low));
        // Places in the row, two a word: keys are written where bins are read.
        unsigned place[16];
#pragma unroll
        for (int i = 0; i < 32; i++) {
            unsigned at = i * 32 + lane;
            if (WHOLE || lane < width - i * 32)
                at = staged[(key[i] - low) >> shift] + (ranks[i / 6] >> i % 6 * 5 & 31);
            place[i / 2] = i % 2 ? place[i / 2] | at << 16 : at;
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const unsigned at = place[i / 2] >> i % 2 * 16 & 0xffff;
            staged[at + at / 32] = key[i];
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 32; i++)
            key[i] = staged[lane * 33 + i];
#pragma unroll 1
        for (int round = 0; round < largest; round += 2) {
#pragma unroll
            for (int i = 0; i < 32; i += 2)
                order(key[i], key[i + 1]);
            const int before = __shfl_up_sync(FULL, key[31], 1), after = __shfl_down_sync(FULL, key[0], 1);
#pragma unroll
            for (int i = 1; i < 31; i += 2)
                order(key[i], key[i + 1]);
            key[0] = lane > 0 ? max(key[0], before) : key[0];
            key[31] = lane < 31 ? min(key[31], after) : key[31];
        }
    } else {
        sort_registers<2>(key);
        merge_lanes<2>(key, lane);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 32; i++)
        staged[lane * 33 + i] = key[i];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 32; i++)
        if (WHOLE || lane < width - i * 32)
            __stcs(to + i * 32 + lane, staged[i * 33 + lane]);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 7)
    sort_rows(const int *__restrict__ keys, int *__restrict__ ordered, int rows, int width)
{
    __shared__ __align__(16) int staged[WARPS][32 * 33];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = blockIdx.x * WARPS + warp;
    if (row >= rows)
        return;
    const int *from = keys + static_cast<size_t>(row) * width;
    int *to = ordered + static_cast<size_t>(row) * width;
    if (width == WIDTH)
        sort_row<true>(from, to, width, staged[warp], lane);
    else
        sort_row<false>(from, to, width, staged[warp], lane);
}
