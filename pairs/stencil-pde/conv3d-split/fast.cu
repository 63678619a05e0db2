#define WIDTH 32
#define WARP_ROWS 2
#define WARPS 8
#define HEIGHT (WARPS * WARP_ROWS)
#define THREADS (32 * WARPS)
#define FILTERS 32
#define CHANNELS 8
#define PITCH (WIDTH + 2)
#define PLANE 616
#define VOLUME (3 * PLANE)
#define TAPS 27
#define TAP_PITCH (FILTERS + 8)
#define TILE (CHANNELS * VOLUME)

// Four bytes to shared memory in the background; zeros where there is nothing to read.
__device__ __forceinline__ void copy_async(float *to, const float *from, bool inside)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from), "r"(inside ? 4 : 0) : "memory");
}

struct Shape {
    int channels, filters, depth, height, width;
};

__device__ __forceinline__ void copy_stage(float *stage, const float *__restrict__ in, const float *__restrict__ weights,
                                           int channel, int filter, int z, const Shape &s)
{
    const int top = blockIdx.y * HEIGHT - 1, left = blockIdx.x * WIDTH - 1;
    for (int item = threadIdx.x; item < 3 * CHANNELS * (HEIGHT + 2) * PITCH; item += THREADS) {
        const int plane = item / ((HEIGHT + 2) * PITCH), at = item - plane * ((HEIGHT + 2) * PITCH);
        const int own = channel + plane / 3, deep = z - 1 + plane % 3, row = top + at / PITCH, col = left + at % PITCH;
        const bool inside = own < s.channels && deep >= 0 && deep < s.depth && row >= 0 && row < s.height && col >= 0 &&
                            col < s.width;
        const size_t from = (static_cast<size_t>(own * s.depth + deep) * s.height + row) * s.width + col;
        copy_async(stage + plane * PLANE + at, inside ? in + from : in, inside);
    }
    for (int item = threadIdx.x; item < FILTERS * CHANNELS * TAPS; item += THREADS) {
        const int own = item / (CHANNELS * TAPS), at = item % (CHANNELS * TAPS), plane = at / TAPS, tap = at % TAPS;
        const bool inside = filter + own < s.filters && channel + plane < s.channels;
        copy_async(stage + TILE + (tap * CHANNELS + plane) * TAP_PITCH + own,
                   inside ? weights + ((filter + own) * s.channels + channel) * TAPS + at : weights, inside);
    }
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
    float part[2][4][4] = {};
#pragma unroll 1
    for (int tap = 0; tap < TAPS; tap++) {
        unsigned p[2][2][4];
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                split(taps[(tap * CHANNELS + e / 2 * 4 + lane % 4) * TAP_PITCH + 16 * r + e % 2 * 8 + lane / 4],
                      p[0][r][e], p[1][r][e]);
        const float *pixels = row + lane % 4 * VOLUME + tap / 9 * PLANE + tap / 3 % 3 * PITCH + tap % 3 + lane / 4;
#pragma unroll
        for (int s = 0; s < 4; s++) {
            unsigned q[2][2];
#pragma unroll
            for (int e = 0; e < 2; e++)
                split(pixels[4 * e * VOLUME + 8 * s], q[0][e], q[1][e]);
#pragma unroll
            for (int r = 0; r < 2; r++) {
                multiply(part[r][s], p[1][r], q[0]);
                multiply(part[r][s], p[0][r], q[1]);
                multiply(part[r][s], p[0][r], q[0]);
            }
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

// A product of filters and places for each tap, summed over channels: a warp has 32 filters and two rows of 32 places.
// Of the two blocks on a multiprocessor one loads while the other multiplies.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    convolve(const float *__restrict__ in, const float *__restrict__ weights, float *__restrict__ out, int channels,
             int filters, int depth, int height, int width)
{
    extern __shared__ __align__(16) float stage[];
    const Shape shape = {channels, filters, depth, height, width};
    const int z = blockIdx.z % depth, filter = blockIdx.z / depth * FILTERS;
    const int lane = threadIdx.x % 32, y = threadIdx.x / 32 * WARP_ROWS;
    float sum[WARP_ROWS][2][4][4] = {};
    for (int channel = 0; channel < channels; channel += CHANNELS) {
        copy_stage(stage, in, weights, channel, filter, z, shape);
        asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
#pragma unroll
        for (int i = 0; i < WARP_ROWS; i++)
            add_row(sum[i], stage + (y + i) * PITCH, stage + TILE);
        __syncthreads();
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
                    if (own >= filters || row >= height || col >= width)
                        continue;
                    float *to = out + (static_cast<size_t>(own * depth + z) * height + row) * width + col;
                    const float left = sum[i][r][s][2 * half], right = sum[i][r][s][2 * half + 1];
                    if (width % 2 == 0) {
                        *reinterpret_cast<float2 *>(to) = make_float2(left, right);
                        continue;
                    }
                    to[0] = left;
                    if (col + 1 < width)
                        to[1] = right;
                }
}
