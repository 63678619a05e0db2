#define STRIP 32
#define THREADS 1024
#define ITEMS 8
#define AHEAD 16
#define FULL 0xffffffffu

// The sums of the columns of each strip of rows.
extern "C" __global__ void __launch_bounds__(128)
    sum_strips(const unsigned char *__restrict__ image, int *__restrict__ strips, int height, int width)
{
    const int x = (blockIdx.x * 128 + threadIdx.x) * 4;
    const int first = blockIdx.y * STRIP, last = min(first + STRIP, height);
    if (x >= width)
        return;
    int sum[4] = {};
    const unsigned char *from = image + static_cast<size_t>(first) * width + x;
    if (width % 4 == 0) {
#pragma unroll 8
        for (int y = first; y < last; y++, from += width) {
            const uchar4 four = *reinterpret_cast<const uchar4 *>(from);
            sum[0] += four.x, sum[1] += four.y, sum[2] += four.z, sum[3] += four.w;
        }
    } else {
        for (int y = first; y < last; y++, from += width)
            for (int s = 0; s < 4; s++)
                sum[s] += x + s < width ? from[s] : 0;
    }
#pragma unroll
    for (int s = 0; s < 4; s++)
        if (x + s < width)
            strips[static_cast<size_t>(blockIdx.y) * width + x + s] = sum[s];
}

// What lies above each strip; sums of sixteen strips are loaded before the first of them is overwritten.
extern "C" __global__ void __launch_bounds__(64) scan_strips(int *__restrict__ strips, int count, int width)
{
    const int x = blockIdx.x * 64 + threadIdx.x;
    if (x >= width)
        return;
    int above = 0;
    for (int first = 0; first < count; first += AHEAD) {
        int *own = strips + static_cast<size_t>(first) * width + x;
        int value[AHEAD];
#pragma unroll
        for (int s = 0; s < AHEAD; s++)
            value[s] = first + s < count ? own[static_cast<size_t>(s) * width] : 0;
#pragma unroll
        for (int s = 0; s < AHEAD; s++) {
            if (first + s < count)
                own[static_cast<size_t>(s) * width] = above;
            above += value[s];
        }
    }
}

__device__ __forceinline__ void scan_row(int (&item)[ITEMS], int *totals)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int k = 1; k < ITEMS; k++)
        item[k] += item[k - 1];
    int upto = item[ITEMS - 1];
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(FULL, upto, distance);
        if (lane >= distance)
            upto += other;
    }
    if (lane == 31)
        totals[warp] = upto;
    __syncthreads();
    int before = __reduce_add_sync(FULL, lane < warp ? totals[lane] : 0) + upto - item[ITEMS - 1];
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
        item[k] += before;
}

// One block per strip, a row at a time; `left` carries each row's sum into the next piece of a wide image.
extern "C" __global__ void __launch_bounds__(THREADS)
    integrate(const unsigned char *__restrict__ image, const int *__restrict__ strips, int *__restrict__ sums,
              int height, int width)
{
    __shared__ int totals[2][THREADS / 32];
    __shared__ int left[STRIP + 1];
    const int first = blockIdx.x * STRIP, rows = min(STRIP, height - first);
    for (int piece = 0; piece < width; piece += THREADS * ITEMS) {
        const int x = piece + threadIdx.x * ITEMS;
        const bool whole = width % ITEMS == 0 && x < width;
        int above[ITEMS];
#pragma unroll
        for (int k = 0; k < ITEMS; k++)
            above[k] = x + k < width ? strips[static_cast<size_t>(blockIdx.x) * width + x + k] : 0;
        scan_row(above, totals[0]);
        const int carried = piece > 0 ? left[0] : 0;
        __syncthreads();
        if (threadIdx.x == THREADS - 1)
            left[0] = carried + above[ITEMS - 1];
#pragma unroll
        for (int k = 0; k < ITEMS; k++)
            above[k] += carried;
        for (int r = 0; r < rows; r++) {
            const size_t at = static_cast<size_t>(first + r) * width + x;
            int item[ITEMS];
            if (whole) {
                const uint2 eight = __ldcs(reinterpret_cast<const uint2 *>(image + at));
#pragma unroll
                for (int k = 0; k < ITEMS; k++)
                    item[k] = (k < 4 ? eight.x >> 8 * k : eight.y >> 8 * (k - 4)) & 255;
            } else {
#pragma unroll
                for (int k = 0; k < ITEMS; k++)
                    item[k] = x + k < width ? image[at + k] : 0;
            }
            scan_row(item, totals[(r + 1) % 2]);
            const int carry = piece > 0 ? left[r + 1] : 0;
            if (piece + THREADS * ITEMS < width) {
                __syncthreads();
                if (threadIdx.x == THREADS - 1)
                    left[r + 1] = carry + item[ITEMS - 1];
            }
#pragma unroll
            for (int k = 0; k < ITEMS; k++)
                above[k] += carry + item[k];
            if (whole) {
                __stcs(reinterpret_cast<int4 *>(sums + at), make_int4(above[0], above[1], above[2], above[3]));
                __stcs(reinterpret_cast<int4 *>(sums + at) + 1, make_int4(above[4], above[5], above[6], above[7]));
            } else {
#pragma unroll
                for (int k = 0; k < ITEMS; k++)
                    if (x + k < width)
                        sums[at + k] = above[k];
            }
        }
        __syncthreads();
    }
}
