// A warp marches down 128 columns, four to a lane. Column sums run along: a row enters, the one that has left
// the window goes. Along the row a window is the difference of two prefix sums, made with shuffles. The outer
// HALO (at least the radius) columns on either side are overlap, so 128 - 2 HALO columns are stored.
#define ROWS 128
#define WARPS 4

__device__ __forceinline__ uint4 load4(const unsigned char *__restrict__ image, int x, int y, int height, int width)
{
    const unsigned char *row = image + (size_t)min(max(y, 0), height - 1) * width;
    if (x >= 0 && x + 3 < width && width % 4 == 0) {
        const unsigned word = __ldg(reinterpret_cast<const unsigned *>(row + x));
        return make_uint4(word & 255u, word >> 8 & 255u, word >> 16 & 255u, word >> 24);
    }
    const int last = width - 1;
    return make_uint4(row[min(max(x, 0), last)], row[min(max(x + 1, 0), last)], row[min(max(x + 2, 0), last)],
                      row[min(max(x + 3, 0), last)]);
}

template <int HALO>
__global__ void __launch_bounds__(32 * WARPS)
    box(const unsigned char *__restrict__ image, unsigned char *__restrict__ out, int height, int width, int radius)
{
    constexpr int INNER = 128 - 2 * HALO;
    __shared__ __align__(16) unsigned prefixes[WARPS][2][132];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int strip = (blockIdx.x * WARPS + warp) * INNER;
    if (strip >= width)
        return;
    const int x = strip - HALO + 4 * lane;
    const int first = blockIdx.y * ROWS, last = min(first + ROWS, height);
    const unsigned side = 2 * radius + 1, area = side * side;
    const unsigned reciprocal = 0xffffffffu / area + 1;
    const bool keeps = 4 * lane >= HALO && 4 * lane < HALO + INNER && x < width;
    uint4 column = make_uint4(0, 0, 0, 0);
    for (int y = first - radius; y < first + radius; y++) {
        const uint4 entering = load4(image, x, y, height, width);
        column.x += entering.x;
        column.y += entering.y;
        column.z += entering.z;
        column.w += entering.w;
    }
    uint4 entering = load4(image, x, first + radius, height, width);
    uint4 leaving = make_uint4(0, 0, 0, 0);
    for (int y = first; y < last; y++) {
        column.x += entering.x - leaving.x;
        column.y += entering.y - leaving.y;
        column.z += entering.z - leaving.z;
        column.w += entering.w - leaving.w;
        entering = load4(image, x, y + 1 + radius, height, width);
        leaving = load4(image, x, y - radius, height, width);
        uint4 sum = column;
        sum.y += sum.x;
        sum.z += sum.y;
        sum.w += sum.z;
        unsigned total = sum.w;
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
            const unsigned other = __shfl_up_sync(0xffffffffu, total, step);
            if (lane >= step)
                total += other;
        }
        const unsigned before = total - sum.w;
        unsigned *line = prefixes[warp][y & 1];
        if (lane == 0)
            line[3] = 0;
        *reinterpret_cast<uint4 *>(line + 4 + 4 * lane) =
            make_uint4(before + sum.x, before + sum.y, before + sum.z, total);
        __syncwarp();
        if (keeps) {
            unsigned char mean[4];
            const unsigned *high = line + 4 + 4 * lane + radius, *low = line + 4 + 4 * lane - radius - 1;
#pragma unroll
            for (int i = 0; i < 4; i++)
                mean[i] = __umulhi(high[i] - low[i] + area / 2, reciprocal);
            unsigned char *to = out + (size_t)y * width + x;
            if (width % 4 == 0) {
                *reinterpret_cast<uchar4 *>(to) = make_uchar4(mean[0], mean[1], mean[2], mean[3]);
            } else {
                for (int i = 0; i < min(4, width - x); i++)
                    to[i] = mean[i];
            }
        }
    }
}
