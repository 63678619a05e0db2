#define WIDTH 32
#define WARP_ROWS 1
#define WARPS 8
#define HEIGHT (WARPS * WARP_ROWS)
#define THREADS (32 * WARPS)
#define FILTERS 32
#define CHANNELS 8
#define MARGIN 4
#define PITCH (WIDTH + 2 * MARGIN)
#define PLANE 408
#define TAP_PITCH (FILTERS + 8)
#define TILE (CHANNELS * PLANE)
#define STAGE (TILE + 9 * CHANNELS * TAP_PITCH)

// BYTES to shared memory in the background; zeros where there is nothing to read.
template <int BYTES> __device__ __forceinline__ void copy_async(float *to, const float *from, bool inside)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from), "n"(BYTES), "r"(inside ? BYTES : 0) : "memory");
}

// A tile of pixels with a border of one, and the weights of its channels. A row is eight times 16 bytes, and a pixel
// at each side; number by number where rows are not aligned.
__device__ __forceinline__ void copy_stage(float *stage, const float *__restrict__ in,
                                           const float *__restrict__ weights, int channel, int filter, int c, int k,
                                           int h, int w)
{
    const int top = blockIdx.y * HEIGHT - 1, left = blockIdx.x * WIDTH;
    const auto copy_one = [&](int line, int at) {
        const int plane = line / (HEIGHT + 2), i = line % (HEIGHT + 2), row = top + i, col = left + at;
        const bool inside = channel + plane < c && row >= 0 && row < h && col >= 0 && col < w;
        copy_async<4>(stage + plane * PLANE + i * PITCH + MARGIN + at,
                      inside ? in + ((channel + plane) * h + row) * w + col : in, inside);
    };
    if (w % 4 == 0) {
        for (int item = threadIdx.x; item < CHANNELS * (HEIGHT + 2) * (WIDTH / 4); item += THREADS) {
            const int line = item / (WIDTH / 4), at = item % (WIDTH / 4) * 4;
            const int plane = line / (HEIGHT + 2), i = line % (HEIGHT + 2), row = top + i, col = left + at;
            const bool inside = channel + plane < c && row >= 0 && row < h && col < w;
            copy_async<16>(stage + plane * PLANE + i * PITCH + MARGIN + at,
                           inside ? in + ((channel + plane) * h + row) * w + col : in, inside);
        }
        for (int item = threadIdx.x; item < CHANNELS * (HEIGHT + 2) * 2; item += THREADS)
            copy_one(item / 2, item % 2 ? WIDTH : -1);
    } else {
        for (int item = threadIdx.x; item < CHANNELS * (HEIGHT + 2) * (WIDTH + 2); item += THREADS)
            copy_one(item / (WIDTH + 2), item % (WIDTH + 2) - 1);
    }
    // A thread has the nine weights of a channel and a filter.
    const int plane = threadIdx.x % CHANNELS, own = threadIdx.x / CHANNELS;
    const bool inside = filter + own < k && channel + plane < c;
    const float *from = weights + (inside ? ((filter + own) * c + channel + plane) * 9 : 0);
    float *to = stage + TILE + plane * TAP_PITCH + own;
#pragma unroll
    for (int tap = 0; tap < 9; tap++)
        copy_async<4>(to + tap * CHANNELS * TAP_PITCH, from + (inside ? tap : 0), inside);
}

// A number as its first 11 bits and what they leave, of which tf32 keeps 11 more.
__device__ __forceinline__ void split(float x, unsigned &high, unsigned &low)
{
    high = __float_as_uint(x) & 0xffffe000u;
    low = __float_as_uint(x - __uint_as_float(high));
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A row of 32 pixels for 32 filters and eight channels: three of the four products of the parts, the small ones first.
// Tensor cores may cut off bits where they add, so eight channels are summed alone and added by ordinary arithmetic.
__device__ __forceinline__ void add_row(float (&sum)[2][4][4], const float *row, const float *taps)
{
    const int lane = threadIdx.x % 32;
    row += lane % 4 * PLANE + MARGIN - 1 + lane / 4;
    taps += lane % 4 * TAP_PITCH + lane / 4;
    float part[2][4][4] = {};
#pragma unroll 3
    for (int tap = 0; tap < 9; tap++) {
        unsigned p[2][2][4];
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                split(taps[(tap * CHANNELS + e / 2 * 4) * TAP_PITCH + 16 * r + e % 2 * 8], p[0][r][e], p[1][r][e]);
        const float *pixels = row + tap / 3 * PITCH + tap % 3;
#pragma unroll
        for (int s = 0; s < 4; s++) {
            unsigned q[2][2];
#pragma unroll
            for (int e = 0; e < 2; e++)
                split(pixels[4 * e * PLANE + 8 * s], q[0][e], q[1][e]);
#pragma unroll
            for (int r = 0; r < 2; r++)
                multiply(part[r][s], p[1][r], q[0]);
#pragma unroll
            for (int r = 0; r < 2; r++)
                multiply(part[r][s], p[0][r], q[1]);
#pragma unroll
            for (int r = 0; r < 2; r++)
                multiply(part[r][s], p[0][r], q[0]);
        }
    }
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
        for (int s = 0; s < 4; s++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[r][s][e] += part[r][s][e];
}

// A product of filters and pixels for each tap, summed over channels: a warp has 32 filters and a row of 32 pixels.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    conv2d(const float *__restrict__ in, const float *__restrict__ weights, float *__restrict__ out, int c, int k,
           int h, int w)
{
    extern __shared__ __align__(16) float stages[];
    const int groups = (k + FILTERS - 1) / FILTERS;
    const int image = blockIdx.z / groups, filter = blockIdx.z % groups * FILTERS;
    const int lane = threadIdx.x % 32, y = threadIdx.x / 32 * WARP_ROWS;
    const float *from = in + image * c * h * w;
    const int rounds = (c + CHANNELS - 1) / CHANNELS;
    float sum[WARP_ROWS][2][4][4] = {};
    copy_stage(stages, from, weights, 0, filter, c, k, h, w);
    asm volatile("cp.async.commit_group;" ::: "memory");
    for (int round = 0; round < rounds; round++) {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        if (round + 1 < rounds)
            copy_stage(stages + (round + 1) % 2 * STAGE, from, weights, (round + 1) * CHANNELS, filter, c, k, h, w);
        asm volatile("cp.async.commit_group;" ::: "memory");
        const float *stage = stages + round % 2 * STAGE;
#pragma unroll
        for (int i = 0; i < WARP_ROWS; i++)
            add_row(sum[i], stage + (y + i) * PITCH, stage + TILE);
    }
#pragma unroll
    for (int i = 0; i < WARP_ROWS; i++)
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int s = 0; s < 4; s++)
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const int own = filter + 16 * r + 8 * half + lane / 4;
                    const int row = blockIdx.y * HEIGHT + y + i, col = blockIdx.x * WIDTH + 8 * s + lane % 4 * 2;
                    if (own >= k || row >= h || col >= w)
                        continue;
                    float *to = out + ((image * k + own) * h + row) * w + col;
                    const float left = sum[i][r][s][2 * half], right = sum[i][r][s][2 * half + 1];
                    if (w % 2 == 0) {
                        *reinterpret_cast<float2 *>(to) = make_float2(left, right);
                        continue;
                    }
                    to[0] = left;
                    if (col + 1 < w)
                        to[1] = right;
                }
}
