#define TAPS 64
#define WARPS 8
#define THREADS (32 * WARPS)
#define SEGMENT 32
#define TILE (16 * SEGMENT)
#define STEPS 3
#define COLS 4
#define PAD 32

// The four bytes from byte `at` on of words in shared memory.
__device__ __forceinline__ unsigned bytes_at(const unsigned *words, int at)
{
    return __funnelshift_r(words[at / 4], words[at / 4 + 1], 8 * (at % 4));
}

__device__ __forceinline__ void multiply(int (&d)[4], uint2 upper, uint2 lower, uint2 taps)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(upper.x), "r"(lower.x), "r"(upper.y), "r"(lower.y), "r"(taps.x), "r"(taps.y));
}

__device__ __forceinline__ uint2 load_eight(const signed char *__restrict__ samples, long long at, long long count)
{
    if (at + 8 <= count)
        return __ldg(reinterpret_cast<const uint2 *>(samples + at));
    unsigned words[2] = {};
#pragma unroll
    for (int s = 0; s < 8; s++)
        if (at + s < count)
            words[s / 4] |= (samples[at + s] & 255u) << 8 * (s % 4);
    return make_uint2(words[0], words[1]);
}

// What a lane needs of a tile: of the segments of its two rows and of the two segments behind each, eight bytes.
struct Window {
    uint2 upper[STEPS], lower[STEPS];
};

__device__ __forceinline__ Window load_window(const signed char *__restrict__ samples, long long tile, long long count)
{
    const int lane = threadIdx.x % 32;
    const long long at = tile * TILE + lane / 4 * SEGMENT + lane % 4 * 8;
    Window w;
    if ((tile + 1) * TILE + TAPS <= count) {
        const uint2 *from = reinterpret_cast<const uint2 *>(samples + at);
#pragma unroll
        for (int s = 0; s < STEPS; s++) {
            w.upper[s] = __ldg(from + s * (SEGMENT / 8));
            w.lower[s] = __ldg(from + (s + 8) * (SEGMENT / 8));
        }
        return w;
    }
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
        w.upper[s] = load_eight(samples, at + s * SEGMENT, count);
        w.lower[s] = load_eight(samples, at + (s + 8) * SEGMENT, count);
    }
    return w;
}

// Tensor cores multiply 16 overlapping windows of 96 samples with a band matrix of the taps, which stays in registers: 32
// outputs a window. The order of a row's samples and of the columns is free; it is chosen so that loads and stores are wide.
extern "C" __global__ void __launch_bounds__(THREADS, 3)
    filter(const signed char *__restrict__ samples, const int *__restrict__ taps, int *__restrict__ out, int n)
{
    __shared__ unsigned padded[(PAD + TAPS + PAD) / 4 + 1];
    if (threadIdx.x < (PAD + TAPS + PAD) / 4 + 1) {
        const int word = static_cast<int>(threadIdx.x) - PAD / 4;
        padded[threadIdx.x] = word >= 0 && word < TAPS / 4 ? taps[word] : 0;
    }
    __syncthreads();
    const int lane = threadIdx.x % 32, row = lane / 4, quad = lane % 4;
    // Column c of tile j is output 16 (j / 2) + 4 (c / 2) + 2 (j % 2) + c % 2 of a window.
    uint2 band[STEPS][COLS];
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
#pragma unroll
        for (int j = 0; j < COLS; j++) {
            const int output = 16 * (j / 2) + 4 * (row / 2) + 2 * (j % 2) + row % 2;
            const int at = PAD + SEGMENT * s + 8 * quad - output;
            band[s][j] = make_uint2(bytes_at(padded, at), bytes_at(padded, at + 4));
        }
    }
    const long long count = static_cast<long long>(n) + TAPS - 1;
    const int tiles = (n + TILE - 1) / TILE, stride = gridDim.x * WARPS;
    int tile = blockIdx.x * WARPS + threadIdx.x / 32;
    if (tile >= tiles)
        return;
    Window next = load_window(samples, tile, count);
    for (; tile < tiles; tile += stride) {
        const Window own = next;
        if (tile + stride < tiles)
            next = load_window(samples, tile + stride, count);
        int sum[COLS][4] = {};
#pragma unroll
        for (int s = 0; s < STEPS; s++)
#pragma unroll
            for (int j = 0; j < COLS; j++)
                multiply(sum[j], own.upper[s], own.lower[s], band[s][j]);
        const int first = tile * TILE;
        const bool whole = first + TILE <= n;
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int part = 0; part < 2; part++) {
                const int at = first + (row + 8 * half) * SEGMENT + 16 * part + 4 * quad;
                const int *low = sum[2 * part] + 2 * half, *high = sum[2 * part + 1] + 2 * half;
                if (whole || at + 4 <= n) {
                    __stcs(reinterpret_cast<int4 *>(out + at), make_int4(low[0], low[1], high[0], high[1]));
                } else {
                    const int four[4] = {low[0], low[1], high[0], high[1]};
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        if (at + e < n)
                            out[at + e] = four[e];
                }
            }
        }
    }
}
