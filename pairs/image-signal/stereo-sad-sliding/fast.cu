#define RADIUS 3
#define SPAN (2 * RADIUS + 1)
#define WIDE 120
#define WARPS 8
#define TURNS 3
#define ROWS (WARPS * TURNS)
#define LEFT_WORDS (WIDE / 4 + 2)
#define RIGHT_WORDS (WIDE / 4 + 10)
#define THREADS (32 * WARPS)
#define FULL 0xffffffffu

__device__ __forceinline__ unsigned take(const unsigned char *__restrict__ row, int x, int width)
{
    if (width % 4 == 0 && x >= 0 && x < width)
        return __ldg(reinterpret_cast<const unsigned *>(row + x));
    unsigned four = 0;
#pragma unroll
    for (int s = 0; s < 4; s++)
        four |= static_cast<unsigned>(row[min(max(x + s, 0), width - 1)]) << 8 * s;
    return four;
}

// Four rows of four columns become four columns of four rows.
__device__ __forceinline__ void turn(unsigned a, unsigned b, unsigned c, unsigned d, unsigned (&to)[4])
{
    const unsigned t = __byte_perm(a, b, 0x5140), u = __byte_perm(c, d, 0x5140);
    const unsigned v = __byte_perm(a, b, 0x7362), w = __byte_perm(c, d, 0x7362);
    to[0] = __byte_perm(t, u, 0x5410);
    to[1] = __byte_perm(t, u, 0x7632);
    to[2] = __byte_perm(v, w, 0x5410);
    to[3] = __byte_perm(v, w, 0x7632);
}

// A warp a row of pixels, a lane a shift. The seven rows of a column are packed into two words, so that a column's
// differences are two instructions; the sum over seven columns slides along the row: each step adds one and drops one.
extern "C" __global__ void __launch_bounds__(THREADS)
    match(const unsigned char *__restrict__ left, const unsigned char *__restrict__ right,
          unsigned char *__restrict__ shifts, int height, int width)
{
    __shared__ unsigned pixels[ROWS + SPAN - 1][LEFT_WORDS + RIGHT_WORDS];
    __shared__ uint4 columns[WARPS][2 * (LEFT_WORDS + RIGHT_WORDS)];
    __shared__ unsigned found[WARPS][WIDE / 4 + 2];
    const int x = blockIdx.x * WIDE, y = blockIdx.y * ROWS, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int item = threadIdx.x; item < (ROWS + SPAN - 1) * (LEFT_WORDS + RIGHT_WORDS); item += THREADS) {
        const int i = item / (LEFT_WORDS + RIGHT_WORDS), word = item % (LEFT_WORDS + RIGHT_WORDS);
        const size_t row = static_cast<size_t>(min(max(y - RADIUS + i, 0), height - 1)) * width;
        pixels[i][word] = word < LEFT_WORDS ? take(left + row, x - 4 + 4 * word, width)
                                            : take(right + row, x - 36 + 4 * (word - LEFT_WORDS), width);
    }
    __syncthreads();
    // The left column in turn, and the right one that the lane's shift sets against it.
    const uint2 *ours = reinterpret_cast<const uint2 *>(columns[warp]) + 1;
    const uint2 *theirs = reinterpret_cast<const uint2 *>(columns[warp]) + 4 * LEFT_WORDS + 33 - lane;
    unsigned char *best = reinterpret_cast<unsigned char *>(found[warp]) + 2;
    for (int i = warp; i < min(ROWS, height - y); i += WARPS) {
        for (int word = lane; word < LEFT_WORDS + RIGHT_WORDS; word += 32) {
            unsigned upper[4], lower[4];
            turn(pixels[i][word], pixels[i + 1][word], pixels[i + 2][word], pixels[i + 3][word], upper);
            turn(pixels[i + 4][word], pixels[i + 5][word], pixels[i + 6][word], 0, lower);
            columns[warp][2 * word] = make_uint4(upper[0], lower[0], upper[1], lower[1]);
            columns[warp][2 * word + 1] = make_uint4(upper[2], lower[2], upper[3], lower[3]);
        }
        __syncwarp();
        unsigned ring[SPAN] = {}, sum = 0;
#pragma unroll 1
        for (int base = 0; base < WIDE + SPAN - 1; base += SPAN) {
#pragma unroll
            for (int u = 0; u < SPAN; u++) {
                const uint2 a = ours[base + u], b = theirs[base + u];
                const unsigned column = __vsadu4(a.x, b.x) + __vsadu4(a.y, b.y);
                sum += column - ring[u];
                ring[u] = column;
                const unsigned least = __reduce_min_sync(FULL, sum * 32 + lane);
                if (lane == 0)
                    best[base + u] = least;
            }
        }
        __syncwarp();
        const unsigned four = lane < WIDE / 4 ? found[warp][2 + lane] & 0x1f1f1f1f : 0;
        const int column = x + 4 * lane;
        unsigned char *to = shifts + static_cast<size_t>(y + i) * width + column;
        if (lane < WIDE / 4 && width % 4 == 0 && column < width) {
            *reinterpret_cast<unsigned *>(to) = four;
        } else if (lane < WIDE / 4) {
#pragma unroll
            for (int s = 0; s < 4; s++)
                if (column + s < width)
                    to[s] = four >> 8 * s;
        }
    }
}
