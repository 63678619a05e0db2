#define RADIUS 3
#define SPAN (2 * RADIUS + 1)
#define COLS 32
#define ROWS 28
#define OWN 4
#define THREADS 256
#define LEFT_WORDS 10
#define RIGHT_WORDS 18
#define FULL 0xffffffffu

__device__ __forceinline__ unsigned take(const unsigned char *__restrict__ row, int x, int width)
{
    unsigned four = 0;
    if (width % 4 == 0 && x >= 0 && x < width)
        return __ldg(reinterpret_cast<const unsigned *>(row + x));
#pragma unroll
    for (int s = 0; s < 4; s++)
        four |= static_cast<unsigned>(row[min(max(x + s, 0), width - 1)]) << 8 * s;
    return four;
}

// One lane per shift, four columns per warp. Sums of a row are kept for seven rows: each step adds one and drops one.
extern "C" __global__ void __launch_bounds__(THREADS)
    match(const unsigned char *__restrict__ left, const unsigned char *__restrict__ right,
          unsigned char *__restrict__ shifts, int height, int width)
{
    __shared__ unsigned lefts[(ROWS + SPAN - 1) * LEFT_WORDS], rights[(ROWS + SPAN - 1) * RIGHT_WORDS];
    const int x = blockIdx.x * COLS, y = blockIdx.y * ROWS;
    for (int item = threadIdx.x; item < (ROWS + SPAN - 1) * (LEFT_WORDS + RIGHT_WORDS); item += THREADS) {
        const int i = item / (LEFT_WORDS + RIGHT_WORDS), word = item % (LEFT_WORDS + RIGHT_WORDS);
        const size_t row = static_cast<size_t>(min(max(y - RADIUS + i, 0), height - 1)) * width;
        if (word < LEFT_WORDS)
            lefts[i * LEFT_WORDS + word] = take(left + row, x - 4 + 4 * word, width);
        else
            rights[i * RIGHT_WORDS + word - LEFT_WORDS] = take(right + row, x - 36 + 4 * (word - LEFT_WORDS), width);
    }
    __syncthreads();
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int from = 33 + warp * OWN - lane;
    unsigned ring[SPAN][OWN] = {}, sum[OWN] = {};
    const int last = min(ROWS, height - y) + SPAN - 1;
    for (int base = 0; base < last; base += SPAN) {
#pragma unroll
        for (int u = 0; u < SPAN; u++) {
            const int i = base + u;
            if (i >= last)
                break;
            const unsigned *a = lefts + i * LEFT_WORDS + warp;
            const unsigned *b = rights + i * RIGHT_WORDS + from / 4;
            const int shift = 8 * (from % 4);
            const unsigned a0 = __funnelshift_r(a[0], a[1], 8), a1 = __funnelshift_r(a[1], a[2], 8), a2 = a[2] >> 8;
            const unsigned b0 = __funnelshift_r(b[0], b[1], shift), b1 = __funnelshift_r(b[1], b[2], shift);
            const unsigned b2 = __funnelshift_r(b[2], from / 4 + 3 < RIGHT_WORDS ? b[3] : 0, shift);
#pragma unroll
            for (int s = 0; s < OWN; s++) {
                const unsigned p = __funnelshift_r(a0, a1, 8 * s), q = __funnelshift_r(b0, b1, 8 * s);
                const unsigned r = __funnelshift_r(a1, a2, 8 * s) & 0xffffff,
                               t = __funnelshift_r(b1, b2, 8 * s) & 0xffffff;
                const unsigned row = __vsadu4(p, q) + __vsadu4(r, t);
                sum[s] += row - ring[u][s];
                ring[u][s] = row;
            }
            if (i >= SPAN - 1) {
                unsigned mine = 0;
#pragma unroll
                for (int s = 0; s < OWN; s++) {
                    const unsigned best = __reduce_min_sync(FULL, sum[s] << 5 | lane);
                    if (lane == s)
                        mine = best & 31;
                }
                const int col = x + warp * OWN + lane;
                if (lane < OWN && col < width)
                    shifts[static_cast<size_t>(y + i - SPAN + 1) * width + col] = mine;
            }
        }
    }
}
