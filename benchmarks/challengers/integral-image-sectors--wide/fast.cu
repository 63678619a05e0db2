#define STRIP 32
#define PARTS 8
#define BATCH 16
#define WARPS 4
#define SEGMENT 128
#define CHUNKS 4
#define SPAN (CHUNKS * SEGMENT)
#define AHEAD 4
#define ALL 0xffffffffu

__device__ __forceinline__ unsigned load_word(const unsigned char *__restrict__ row, int x, int width)
{
    if (width % 4 == 0)
        return x < width ? *reinterpret_cast<const unsigned *>(row + x) : 0u;
    unsigned word = 0;
#pragma unroll
    for (int s = 0; s < 4; s++)
        word |= (x + s < width ? static_cast<unsigned>(row[x + s]) : 0u) << 8 * s;
    return word;
}

// The sums of the columns of each strip of rows, and of each row's segments of 128 columns.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    sum_strips(const unsigned char *__restrict__ image, int *__restrict__ strips, int *__restrict__ segments, int height,
               int width)
{
    const int lane = threadIdx.x % 32, segment = blockIdx.x * WARPS + threadIdx.x / 32, x = segment * SEGMENT + 4 * lane;
    const int first = blockIdx.y * STRIP, rows = min(STRIP, height - first);
    if (segment * SEGMENT >= width)
        return;
    int sum[4] = {}, own = 0;
    const unsigned char *from = image + static_cast<size_t>(first) * width;
#pragma unroll 8
    for (int r = 0; r < rows; r++, from += width) {
        const unsigned four = load_word(from, x, width);
        const int all = __reduce_add_sync(ALL, __dp4a(four, 0x01010101u, 0u));
        own = lane == r ? all : own;
#pragma unroll
        for (int s = 0; s < 4; s++)
            sum[s] += four >> 8 * s & 255;
    }
#pragma unroll
    for (int s = 0; s < 4; s++)
        if (x + s < width)
            strips[static_cast<size_t>(blockIdx.y) * width + x + s] = sum[s];
    if (lane < rows)
        segments[static_cast<size_t>(segment) * height + first + lane] = own;
}

// What lies above each strip, and the sums of that over 32 columns. A warp has an eighth of the strips.
extern "C" __global__ void __launch_bounds__(32 * PARTS)
    scan_strips(int *__restrict__ strips, int *__restrict__ groups, int count, int width)
{
    __shared__ int totals[PARTS][32];
    const int lane = threadIdx.x % 32, part = threadIdx.x / 32, x = blockIdx.x * 32 + lane;
    const int each = (count + PARTS - 1) / PARTS, begin = min(part * each, count), end = min(begin + each, count);
    const bool exists = x < width;
    int total = 0;
#pragma unroll 16
    for (int s = begin; s < end; s++)
        total += exists ? strips[static_cast<size_t>(s) * width + x] : 0;
    totals[part][lane] = total;
    __syncthreads();
    int above = 0;
    for (int p = 0; p < part; p++)
        above += totals[p][lane];
    for (int first = begin; first < end; first += BATCH) {
        int *own = strips + static_cast<size_t>(first) * width + x;
        int value[BATCH];
#pragma unroll
        for (int s = 0; s < BATCH; s++)
            value[s] = exists && first + s < end ? own[static_cast<size_t>(s) * width] : 0;
#pragma unroll
        for (int s = 0; s < BATCH; s++) {
            if (first + s >= end)
                break;
            if (exists)
                own[static_cast<size_t>(s) * width] = above;
            const int all = __reduce_add_sync(ALL, above);
            if (lane == 0)
                groups[static_cast<size_t>(first + s) * gridDim.x + blockIdx.x] = all;
            above += value[s];
        }
    }
}

// Adds what comes before each lane in a warp; two numbers of 16 bits to a register.
__device__ __forceinline__ unsigned upto(unsigned value, int lane)
{
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const unsigned other = __shfl_up_sync(ALL, value, distance);
        if (lane >= distance)
            value += other;
    }
    return value;
}

// A warp has 512 columns of a strip, a lane four in each 128. It knows what lies left of its rows from the sums of segments,
// so that no warp waits for another. Strips run backwards: the first find their rows still in the L2 cache.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 8)
    integrate(const unsigned char *__restrict__ image, const int *__restrict__ strips, const int *__restrict__ segments,
              const int *__restrict__ groups, int *__restrict__ sums, int height, int width)
{
    const int lane = threadIdx.x % 32, warp = blockIdx.x * WARPS + threadIdx.x / 32, x = warp * SPAN + 4 * lane;
    const int strip = gridDim.y - 1 - blockIdx.y, first = strip * STRIP, rows = min(STRIP, height - first);
    if (warp * SPAN >= width)
        return;
    const unsigned char *from = image + static_cast<size_t>(first) * width;
    unsigned next[AHEAD][CHUNKS];
#pragma unroll
    for (int r = 0; r < AHEAD; r++)
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
            next[r][c] = r < rows ? load_word(from + static_cast<size_t>(r) * width, x + SEGMENT * c, width) : 0;
    int left = 0, corner = 0;
#pragma unroll 8
    for (int s = 0; s < CHUNKS * warp; s++)
        left += lane < rows ? __ldg(segments + static_cast<size_t>(s) * height + first + lane) : 0;
    const int all_groups = (width + 31) / 32;
#pragma unroll 4
    for (int g = lane; g < SPAN / 32 * warp; g += 32)
        corner += __ldg(groups + static_cast<size_t>(strip) * all_groups + g);
    corner = __reduce_add_sync(ALL, corner);
    int above[CHUNKS][4];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
        for (int s = 0; s < 4; s++) {
            const int at = x + SEGMENT * c + s;
            above[c][s] = at < width ? strips[static_cast<size_t>(strip) * width + at] : 0;
            above[c][s] += s > 0 ? above[c][s > 0 ? s - 1 : 0] : 0;
        }
        const int total = above[c][3], before = static_cast<int>(upto(total, lane)) - total + corner;
#pragma unroll
        for (int s = 0; s < 4; s++)
            above[c][s] += before;
        corner = __shfl_sync(ALL, above[c][3], 31);
    }
    int *to = sums + static_cast<size_t>(first) * width + x;
#pragma unroll 1
    for (int base = 0; base < rows; base += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int r = base + k;
            if (r >= rows)
                break;
            unsigned word[CHUNKS], total[CHUNKS];
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                word[c] = next[k][c];
                total[c] = __dp4a(word[c], 0x01010101u, 0u);
                if (r + AHEAD < rows)
                    next[k][c] = load_word(from + static_cast<size_t>(r + AHEAD) * width, x + SEGMENT * c, width);
            }
            const unsigned own[2] = {total[0] | total[1] << 16, total[2] | total[3] << 16};
            const unsigned scan[2] = {upto(own[0], lane), upto(own[1], lane)};
            const unsigned ends[2] = {__shfl_sync(ALL, scan[0], 31), __shfl_sync(ALL, scan[1], 31)};
            const unsigned before[2] = {scan[0] - own[0], scan[1] - own[1]};
            unsigned carry = __shfl_sync(ALL, left, r);
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const unsigned start = carry + (before[c / 2] >> c % 2 * 16 & 0xffffu);
                carry += ends[c / 2] >> c % 2 * 16 & 0xffffu;
                above[c][0] += __dp4a(word[c], 0x00000001u, start);
                above[c][1] += __dp4a(word[c], 0x00000101u, start);
                above[c][2] += __dp4a(word[c], 0x00010101u, start);
                above[c][3] += __dp4a(word[c], 0x01010101u, start);
                if (width % 4 == 0) {
                    if (x + SEGMENT * c < width)
                        __stcs(reinterpret_cast<int4 *>(to + SEGMENT * c),
                               make_int4(above[c][0], above[c][1], above[c][2], above[c][3]));
                } else {
#pragma unroll
                    for (int s = 0; s < 4; s++)
                        if (x + SEGMENT * c + s < width)
                            to[SEGMENT * c + s] = above[c][s];
                }
            }
            to += width;
        }
    }
}
