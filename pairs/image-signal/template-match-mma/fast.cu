#define SIDE 16
#define WARPS 4
#define COLS 128
#define ROWS 64
#define PADDED 48

// Of a row of the image: the left side of a product, sixteen windows eight pixels apart, and the words under the two
// pairs of places that this thread has.
struct Words {
    unsigned window[4], under[2][5];
};

__device__ __forceinline__ unsigned load_word(const unsigned char *__restrict__ row, int at, int width)
{
    if (at >= width)
        return 0;
    if (width % 4 == 0)
        return __ldg(reinterpret_cast<const unsigned *>(row + at));
    unsigned four = 0;
#pragma unroll
    for (int s = 0; s < 4; s++)
        if (at + s < width)
            four |= static_cast<unsigned>(row[at + s]) << 8 * s;
    return four;
}

__device__ __forceinline__ Words load_row(const unsigned char *__restrict__ image, int x, int y, int height, int width)
{
    const int lane = threadIdx.x % 32;
    const unsigned char *row = image + static_cast<size_t>(min(y, height - 1)) * width;
    Words words;
#pragma unroll
    for (int e = 0; e < 4; e++)
        words.window[e] = load_word(row, x + lane / 4 * 8 + e % 2 * 64 + lane % 4 * 4 + e / 2 * 16, width);
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
        for (int w = 0; w < 5; w++)
            words.under[half][w] = load_word(row, x + lane / 4 * 8 + half * 64 + lane % 4 / 2 * 4 + w * 4, width);
    return words;
}

// The squares of sixteen pixels, from each of this thread's four places on.
__device__ __forceinline__ int4 squares_of(const Words &words)
{
    const int shift = threadIdx.x % 2 * 16;
    int sum[4];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const unsigned *under = words.under[half];
        unsigned square = 0;
#pragma unroll
        for (int w = 0; w < 4; w++) {
            const unsigned four = __funnelshift_r(under[w], under[w + 1], shift);
            square = __dp4a(four, four, square);
        }
        const unsigned leaving = under[0] >> shift & 255u, coming = under[4] >> shift & 255u;
        sum[2 * half] = square;
        sum[2 * half + 1] = square - leaving * leaving + coming * coming;
    }
    return make_int4(sum[0], sum[1], sum[2], sum[3]);
}

__device__ __forceinline__ void multiply(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// (i - t)^2 = i^2 - 2*i*t + t^2. A row of the pattern, moved by zero to seven places, is the right side of a product with
// sixteen windows of an image row: 128 places. A warp marches down; sixteen rows of places are under way at a time.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 2)
    match(const unsigned char *__restrict__ image, const unsigned char *__restrict__ pattern,
          int *__restrict__ differences, int height, int width)
{
    __shared__ unsigned padded[SIDE * PADDED / 4];
    __shared__ int4 recent[WARPS][SIDE][32];
    unsigned char *bytes = reinterpret_cast<unsigned char *>(padded);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int item = threadIdx.x; item < SIDE * PADDED; item += 32 * WARPS) {
        const int col = item % PADDED - 8;
        bytes[item] = col >= 0 && col < SIDE ? pattern[item / PADDED * SIDE + col] : 0;
    }
    __syncthreads();
    unsigned taps[SIDE][2];
    unsigned pattern_squares = 0;
#pragma unroll
    for (int r = 0; r < SIDE; r++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const int at = r * PADDED + 8 + lane % 4 * 4 + e * 16 - lane / 4;
            taps[r][e] = __funnelshift_r(padded[at / 4], padded[at / 4 + 1], at % 4 * 8);
        }
#pragma unroll
        for (int w = 0; w < SIDE / 4; w++) {
            const unsigned four = padded[r * (PADDED / 4) + 2 + w];
            pattern_squares = __dp4a(four, four, pattern_squares);
        }
    }
    const int out_width = width - SIDE + 1, out_height = height - SIDE + 1;
    const int x = blockIdx.x * COLS, first = (blockIdx.y * WARPS + warp) * ROWS;
    if (first >= out_height)
        return;
    const int last = min(first + ROWS, out_height);
    int cross[SIDE][4], own[4];
#pragma unroll
    for (int s = 0; s < 4; s++)
        own[s] = pattern_squares;
#pragma unroll
    for (int r = 0; r < SIDE; r++) {
        recent[warp][r][lane] = make_int4(0, 0, 0, 0);
#pragma unroll
        for (int s = 0; s < 4; s++)
            cross[r][s] = 0;
    }
    Words next = load_row(image, x, first, height, width);
#pragma unroll 1
    for (int base = first; base < last + SIDE - 1; base += SIDE) {
#pragma unroll
        for (int u = 0; u < SIDE; u++) {
            const int y = base + u, done = y - (SIDE - 1);
            const Words words = next;
            next = load_row(image, x, y + 1, height, width);
            const int4 coming = squares_of(words), leaving = recent[warp][u][lane];
            recent[warp][u][lane] = coming;
            own[0] += coming.x - leaving.x;
            own[1] += coming.y - leaving.y;
            own[2] += coming.z - leaving.z;
            own[3] += coming.w - leaving.w;
#pragma unroll
            for (int r = 0; r < SIDE; r++)
                multiply(cross[(u + SIDE - r) % SIDE], words.window, taps[r]);
            int *ready = cross[(u + 1) % SIDE];
#pragma unroll
            for (int s = 0; s < 4; s++) {
                const int col = x + lane / 4 * 8 + s / 2 * 64 + lane % 4 * 2 + s % 2;
                if (done >= first && done < last && col < out_width)
                    differences[static_cast<size_t>(done) * out_width + col] = own[s] - 2 * ready[s];
                ready[s] = 0;
            }
        }
    }
}
