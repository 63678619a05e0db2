#define COLS 128
#define ROWS 32
#define THREADS 256

// Four neighbouring bytes from any byte on.
__device__ __forceinline__ unsigned unaligned(const unsigned *row, int byte)
{
    return __funnelshift_r(row[byte / 4], row[byte / 4 + 1], 8 * (byte % 4));
}

// Minima over windows of doubling length, four pixels per word: first along rows, then along columns.
extern "C" __global__ void __launch_bounds__(THREADS)
    erode(const unsigned char *__restrict__ image, unsigned char *__restrict__ eroded, int height, int width,
          int radius)
{
    extern __shared__ unsigned words[];
    const int reach = (radius + 3) / 4, stride = COLS / 4 + 2 * reach + 1, rows = ROWS + 2 * radius;
    const int x = blockIdx.x * COLS - 4 * reach, y = blockIdx.y * ROWS - radius;
    const int window = 2 * radius + 1;
    unsigned *now = words, *next = words + stride * rows;
    for (int item = threadIdx.x; item < stride * rows; item += THREADS) {
        const int i = y + item / stride, j = x + item % stride * 4;
        unsigned four = 0xffffffffu;
        if (i >= 0 && i < height && j + 3 >= 0 && j < width) {
            const unsigned char *from = image + static_cast<size_t>(i) * width + j;
            if (width % 4 == 0 && j >= 0) {
                four = *reinterpret_cast<const unsigned *>(from);
            } else {
                four = 0;
#pragma unroll
                for (int s = 0; s < 4; s++)
                    four |= (j + s >= 0 && j + s < width ? static_cast<unsigned>(from[s]) : 255u) << 8 * s;
            }
        }
        now[item] = four;
    }
    int length = 1;
    while (length < window) {
        const int shift = min(length, window - length);
        __syncthreads();
        for (int item = threadIdx.x; item < stride * rows; item += THREADS) {
            const int word = item % stride;
            const bool inside = 4 * word + shift + 3 < 4 * stride && word + shift / 4 + 1 < stride;
            next[item] = inside ? __vminu4(now[item], unaligned(now + item - word, 4 * word + shift)) : now[item];
        }
        unsigned *other = now;
        now = next;
        next = other;
        length += shift;
    }
    length = 1;
    while (length < window) {
        const int shift = min(length, window - length);
        __syncthreads();
        for (int item = threadIdx.x; item < stride * rows; item += THREADS)
            next[item] = item / stride + shift < rows ? __vminu4(now[item], now[item + shift * stride]) : now[item];
        unsigned *other = now;
        now = next;
        next = other;
        length += shift;
    }
    __syncthreads();
    for (int item = threadIdx.x; item < COLS / 4 * ROWS; item += THREADS) {
        const int i = item / (COLS / 4), word = item % (COLS / 4);
        const int row = blockIdx.y * ROWS + i, col = blockIdx.x * COLS + 4 * word;
        const unsigned four = unaligned(now + i * stride, 4 * (word + reach) - radius);
        if (row >= height || col >= width)
            continue;
        unsigned char *to = eroded + static_cast<size_t>(row) * width + col;
        if (width % 4 == 0) {
            *reinterpret_cast<unsigned *>(to) = four;
        } else {
#pragma unroll
            for (int s = 0; s < 4; s++)
                if (col + s < width)
                    to[s] = four >> 8 * s;
        }
    }
}
