#define SIDE 16
#define DOWN 8
#define THREADS_X 32
#define THREADS_Y 4
#define COLS (4 * THREADS_X)
#define ROWS (DOWN * THREADS_Y)
#define STRIDE ((COLS + SIDE) / 4)

// (i - t)^2 = i^2 - 2*i*t + t^2, four bytes per instruction; 4x8 places per thread share their rows of the image.
extern "C" __global__ void __launch_bounds__(THREADS_X *THREADS_Y)
    match(const unsigned char *__restrict__ image, const unsigned char *__restrict__ pattern,
          int *__restrict__ differences, int height, int width)
{
    __shared__ unsigned pixels[(ROWS + SIDE - 1) * STRIDE];
    __shared__ uint4 rows[SIDE];
    __shared__ unsigned squares;
    const int thread = threadIdx.y * THREADS_X + threadIdx.x;
    const int x = blockIdx.x * COLS, y = blockIdx.y * ROWS;
    if (thread < SIDE * 4)
        reinterpret_cast<unsigned *>(rows)[thread] = reinterpret_cast<const unsigned *>(pattern)[thread];
    for (int item = thread; item < (ROWS + SIDE - 1) * STRIDE; item += THREADS_X * THREADS_Y) {
        const int i = y + item / STRIDE, j = x + item % STRIDE * 4;
        const unsigned char *from = image + static_cast<size_t>(i) * width + j;
        unsigned four = 0;
        if (i < height && j < width) {
            if (width % 4 == 0) {
                four = __ldg(reinterpret_cast<const unsigned *>(from));
            } else {
#pragma unroll
                for (int s = 0; s < 4; s++)
                    if (j + s < width)
                        four |= static_cast<unsigned>(from[s]) << 8 * s;
            }
        }
        pixels[item] = four;
    }
    __syncthreads();
    if (thread == 0) {
        unsigned sum = 0;
        for (int i = 0; i < SIDE; i++) {
            const uint4 t = rows[i];
            sum = __dp4a(t.x, t.x, __dp4a(t.y, t.y, __dp4a(t.z, t.z, __dp4a(t.w, t.w, sum))));
        }
        squares = sum;
    }
    unsigned cross[DOWN][4] = {}, own[DOWN][4] = {};
#pragma unroll
    for (int i = 0; i < DOWN + SIDE - 1; i++) {
        const unsigned *row = pixels + (threadIdx.y * DOWN + i) * STRIDE + threadIdx.x;
        const unsigned word[5] = {row[0], row[1], row[2], row[3], row[4]};
#pragma unroll
        for (int s = 0; s < 4; s++) {
            unsigned part[4], square = 0;
#pragma unroll
            for (int w = 0; w < 4; w++) {
                part[w] = __funnelshift_r(word[w], word[w + 1], 8 * s);
                square = __dp4a(part[w], part[w], square);
            }
#pragma unroll
            for (int r = 0; r < DOWN; r++) {
                if (i - r >= 0 && i - r < SIDE) {
                    const uint4 t = rows[i - r];
                    cross[r][s] = __dp4a(part[0], t.x, __dp4a(part[1], t.y, cross[r][s]));
                    cross[r][s] = __dp4a(part[2], t.z, __dp4a(part[3], t.w, cross[r][s]));
                    own[r][s] += square;
                }
            }
        }
    }
    __syncthreads();
    const int out_width = width - SIDE + 1, out_height = height - SIDE + 1;
#pragma unroll
    for (int r = 0; r < DOWN; r++) {
        const int i = y + threadIdx.y * DOWN + r;
#pragma unroll
        for (int s = 0; s < 4; s++) {
            const int j = x + threadIdx.x * 4 + s;
            if (i < out_height && j < out_width)
                differences[static_cast<size_t>(i) * out_width + j] = own[r][s] + squares - 2 * cross[r][s];
        }
    }
}
