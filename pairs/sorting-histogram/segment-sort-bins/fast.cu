// A warp a row: keys go to 1024 bins by their leading bits within the row's range, about one a bin, with one atomic a
// key. Then a lane has 32 keys in a row in registers, and as many rounds of odd-even transposition as the fullest bin
// has keys, about seven, put all bins in order. Rows with a crowded bin go through a bitonic network instead.
#define WARPS 2
#define WIDTH 1024
#define CROWD 24
#define STRIDE 36
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

// Counts become the sums of those before them, as halves. Sums of the bins' lower and upper half share a word, so that
// shuffles serve both. Returns the largest count.
__device__ __forceinline__ int scan_bins(const int *bins, unsigned short *starts, int lane)
{
    const int4 *own = reinterpret_cast<const int4 *>(bins) + lane;
    unsigned running = 0;
    unsigned upto[WIDTH / 256], sums[WIDTH / 256];
    int largest = 0;
#pragma unroll
    for (int r = 0; r < WIDTH / 256; r++) {
        const int4 low = own[r * 32], high = own[(r + WIDTH / 256) * 32];
        largest = max(largest, max(max(low.x, low.y), max(low.z, low.w)));
        largest = max(largest, max(max(high.x, high.y), max(high.z, high.w)));
        sums[r] = (low.x + low.y + low.z + low.w) | (high.x + high.y + high.z + high.w) << 16;
        upto[r] = sums[r];
    }
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2)
#pragma unroll
        for (int r = 0; r < WIDTH / 256; r++) {
            const unsigned other = __shfl_up_sync(FULL, upto[r], distance);
            if (lane >= distance)
                upto[r] += other;
        }
#pragma unroll
    for (int r = 0; r < WIDTH / 256; r++) {
        const unsigned total = __shfl_sync(FULL, upto[r], 31);
        upto[r] += running - sums[r];
        running += total;
    }
    const unsigned half = running & 0xffff;
#pragma unroll
    for (int r = 0; r < WIDTH / 128; r++) {
        const int4 item = own[r * 32];
        const unsigned x = r < WIDTH / 256 ? upto[r] & 0xffff : (upto[r - WIDTH / 256] >> 16) + half;
        const unsigned y = x + item.x, z = y + item.y, w = z + item.z;
        reinterpret_cast<uint2 *>(starts)[r * 32 + lane] = make_uint2(x | y << 16, z | w << 16);
    }
    return __reduce_max_sync(FULL, largest);
}

// A row of WIDTH keys if WHOLE. Bins lie where keys are staged later, a lane's 32 with four words between lanes.
template <bool WHOLE>
__device__ __forceinline__ void sort_row(const int *__restrict__ from, int *__restrict__ to, int width, int *staged,
                                         unsigned short *starts, int lane)
{
    int key[32], least = 0x7fffffff, most = -0x7fffffff - 1;
    if (WHOLE) {
#pragma unroll
        for (int i = 0; i < 32; i += 4) {
            const int4 four = __ldcs(reinterpret_cast<const int4 *>(from) + i * 8 + lane);
            key[i] = four.x, key[i + 1] = four.y, key[i + 2] = four.z, key[i + 3] = four.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 32; i++)
            key[i] = lane < width - i * 32 ? __ldcs(from + i * 32 + lane) : 0x7fffffff;
    }
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
    const int largest = scan_bins(staged, starts, lane);
    __syncwarp();
    if (largest <= CROWD) {
        // Else the compiler keeps all bins from above, in more registers than there are.
        asm volatile("" : "+r"(low));
#pragma unroll
        for (int i = 0; i < 32; i++) {
            unsigned at = i * 32 + lane;
            if (WHOLE || lane < width - i * 32)
                at = starts[(key[i] - low) >> shift] + (ranks[i / 6] >> i % 6 * 5 & 31);
            staged[at + at / 32 * 4] = key[i];
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 32; i += 4) {
            const int4 four = *reinterpret_cast<const int4 *>(staged + lane * STRIDE + i);
            key[i] = four.x, key[i + 1] = four.y, key[i + 2] = four.z, key[i + 3] = four.w;
        }
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
    for (int i = 0; i < 32; i += 4)
        *reinterpret_cast<int4 *>(staged + lane * STRIDE + i) = make_int4(key[i], key[i + 1], key[i + 2], key[i + 3]);
    __syncwarp();
    if (WHOLE) {
#pragma unroll
        for (int i = 0; i < 32; i += 4)
            __stcs(reinterpret_cast<int4 *>(to) + i * 8 + lane,
                   *reinterpret_cast<const int4 *>(staged + (i + lane / 8) * STRIDE + lane % 8 * 4));
    } else {
#pragma unroll
        for (int i = 0; i < 32; i++)
            if (lane < width - i * 32)
                __stcs(to + i * 32 + lane, staged[i * STRIDE + lane]);
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 14)
    sort_rows(const int *__restrict__ keys, int *__restrict__ ordered, int rows, int width)
{
    __shared__ __align__(16) int staged[WARPS][32 * STRIDE];
    __shared__ __align__(16) unsigned short starts[WARPS][WIDTH];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = blockIdx.x * WARPS + warp;
    if (row >= rows)
        return;
    const int *from = keys + static_cast<size_t>(row) * width;
    int *to = ordered + static_cast<size_t>(row) * width;
    if (width == WIDTH)
        sort_row<true>(from, to, width, staged[warp], starts[warp], lane);
    else
        sort_row<false>(from, to, width, staged[warp], starts[warp], lane);
}
