#define COLS 128
#define ROWS 16
#define THREADS 256
#define PIXELS_STRIDE (COLS + 8)
#define STRENGTH_STRIDE (COLS + 4)

// Gradient and strength stay in shared memory: two signed halves and their sum of magnitudes.
extern "C" __global__ void __launch_bounds__(THREADS)
    edges(const unsigned char *__restrict__ image, unsigned char *__restrict__ edges, int height, int width, int low,
          int high)
{
    __shared__ unsigned pixels4[(ROWS + 4) * PIXELS_STRIDE / 4];
    __shared__ short2 slopes[(ROWS + 2) * STRENGTH_STRIDE];
    const unsigned char *pixels = reinterpret_cast<const unsigned char *>(pixels4);
    const int x = blockIdx.x * COLS, y = blockIdx.y * ROWS;
    for (int item = threadIdx.x; item < (ROWS + 4) * PIXELS_STRIDE / 4; item += THREADS) {
        const int i = min(max(y - 2 + item / (PIXELS_STRIDE / 4), 0), height - 1);
        const int j = x - 4 + item % (PIXELS_STRIDE / 4) * 4;
        const unsigned char *row = image + static_cast<size_t>(i) * width;
        unsigned four = 0;
        if (width % 4 == 0 && j >= 0 && j < width) {
            four = __ldg(reinterpret_cast<const unsigned *>(row + j));
        } else {
#pragma unroll
            for (int s = 0; s < 4; s++)
                four |= static_cast<unsigned>(row[min(max(j + s, 0), width - 1)]) << 8 * s;
        }
        pixels4[item] = four;
    }
    __syncthreads();
    for (int item = threadIdx.x; item < (ROWS + 2) * (COLS + 2); item += THREADS) {
        const int i = item / (COLS + 2), j = item % (COLS + 2);
        const unsigned char *p = pixels + i * PIXELS_STRIDE + j + 2;
        const unsigned char *q = p + PIXELS_STRIDE, *r = q + PIXELS_STRIDE;
        const bool inside = y + i >= 1 && y + i <= height && x + j >= 1 && x + j <= width;
        const int gx = p[2] + 2 * q[2] + r[2] - p[0] - 2 * q[0] - r[0];
        const int gy = r[0] + 2 * r[1] + r[2] - p[0] - 2 * p[1] - p[2];
        slopes[i * STRENGTH_STRIDE + j] = inside ? make_short2(gx, gy) : make_short2(0, 0);
    }
    __syncthreads();
    for (int item = threadIdx.x; item < ROWS * COLS / 4; item += THREADS) {
        const int i = item / (COLS / 4), first = item % (COLS / 4) * 4;
        unsigned four = 0;
#pragma unroll
        for (int s = 0; s < 4; s++) {
            const short2 *at = slopes + (i + 1) * STRENGTH_STRIDE + first + s + 1;
            const int gx = at->x, gy = at->y, own = abs(gx) + abs(gy);
            int step = 1;
            if (abs(gy) * 32 > abs(gx) * 77)
                step = STRENGTH_STRIDE;
            else if (abs(gy) * 77 > abs(gx) * 32)
                step = (gx ^ gy) >= 0 ? STRENGTH_STRIDE + 1 : STRENGTH_STRIDE - 1;
            const short2 before = at[-step], after = at[step];
            const bool top = own > abs(before.x) + abs(before.y) && own >= abs(after.x) + abs(after.y);
            four |= (top ? (own >= low) + (own >= high) : 0u) << 8 * s;
        }
        const int row = y + i, col = x + first;
        if (row >= height || col >= width)
            continue;
        unsigned char *to = edges + static_cast<size_t>(row) * width + col;
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
