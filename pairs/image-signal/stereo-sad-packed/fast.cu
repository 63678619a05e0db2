#define RADIUS 3
#define SPAN (2 * RADIUS + 1)
#define COLS 32
#define ROWS 8
#define SHIFTS 32
#define LEFT_WORDS 10
#define RIGHT_WORDS 18

__device__ __forceinline__ unsigned take(const unsigned char *__restrict__ row, int x, int width)
{
    unsigned four = 0;
#pragma unroll
    for (int s = 0; s < 4; s++)
        four |= static_cast<unsigned>(row[min(max(x + s, 0), width - 1)]) << 8 * s;
    return four;
}

// One thread per pixel, both windows from shared memory, four bytes per instruction.
extern "C" __global__ void __launch_bounds__(COLS *ROWS)
    match(const unsigned char *__restrict__ left, const unsigned char *__restrict__ right,
          unsigned char *__restrict__ shifts, int height, int width)
{
    __shared__ unsigned lefts[ROWS + SPAN - 1][LEFT_WORDS], rights[ROWS + SPAN - 1][RIGHT_WORDS];
    const int x = blockIdx.x * COLS, y = blockIdx.y * ROWS, thread = threadIdx.y * COLS + threadIdx.x;
    for (int item = thread; item < (ROWS + SPAN - 1) * (LEFT_WORDS + RIGHT_WORDS); item += COLS * ROWS) {
        const int i = item / (LEFT_WORDS + RIGHT_WORDS), word = item % (LEFT_WORDS + RIGHT_WORDS);
        const size_t row = static_cast<size_t>(min(max(y - RADIUS + i, 0), height - 1)) * width;
        if (word < LEFT_WORDS)
            lefts[i][word] = take(left + row, x - 4 + 4 * word, width);
        else
            rights[i][word - LEFT_WORDS] = take(right + row, x - 36 + 4 * (word - LEFT_WORDS), width);
    }
    __syncthreads();
    unsigned low[SPAN], high[SPAN];
    const int own = 1 + threadIdx.x;
#pragma unroll
    for (int i = 0; i < SPAN; i++) {
        const unsigned *a = lefts[threadIdx.y + i] + own / 4;
        low[i] = __funnelshift_r(a[0], a[1], 8 * (own % 4));
        high[i] = __funnelshift_r(a[1], own / 4 + 2 < LEFT_WORDS ? a[2] : 0, 8 * (own % 4)) & 0xffffff;
    }
    unsigned best = 0xffffffffu;
    for (int d = 0; d < SHIFTS; d++) {
        const int from = 33 + threadIdx.x - d;
        unsigned sum = 0;
#pragma unroll
        for (int i = 0; i < SPAN; i++) {
            const unsigned *b = rights[threadIdx.y + i] + from / 4;
            sum += __vsadu4(low[i], __funnelshift_r(b[0], b[1], 8 * (from % 4)));
            sum += __vsadu4(high[i],
                            __funnelshift_r(b[1], from / 4 + 2 < RIGHT_WORDS ? b[2] : 0, 8 * (from % 4)) & 0xffffff);
        }
        best = min(best, sum << 5 | d);
    }
    if (x + threadIdx.x < width && y + threadIdx.y < height)
        shifts[static_cast<size_t>(y + threadIdx.y) * width + x + threadIdx.x] = best & 31;
}
