#define ROWS 32
#define AHEAD 4
#define HELD (ROWS + 2 * AHEAD)
#define WARPS 4
#define FULL 0xffffffffu

// 32 cells per word; a thread takes all 32 bytes where rows are of whole words.
extern "C" __global__ void __launch_bounds__(128)
    pack(const unsigned char *__restrict__ cells, unsigned *__restrict__ words, int height, int width, int stride)
{
    const int x = blockIdx.x * 128 + threadIdx.x, y = blockIdx.y;
    if (x >= stride)
        return;
    const unsigned char *from = cells + static_cast<size_t>(y) * width + 32 * x;
    unsigned word = 0;
    if (width % 32 == 0) {
#pragma unroll
        for (int part = 0; part < 2; part++) {
            const uint4 bytes = __ldcs(reinterpret_cast<const uint4 *>(from) + part);
            const unsigned four[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
#pragma unroll
            for (int k = 0; k < 4; k++)
                word |= (__vminu4(four[k], 0x01010101u) * 0x01020408u >> 24) << (16 * part + 4 * k);
        }
    } else {
        for (int k = 0; k < min(32, width - 32 * x); k++)
            word |= static_cast<unsigned>(from[k] != 0) << k;
    }
    words[static_cast<size_t>(y) * stride + x] = word;
}

extern "C" __global__ void __launch_bounds__(128)
    unpack(const unsigned *__restrict__ words, unsigned char *__restrict__ cells, int height, int width, int stride)
{
    const int x = blockIdx.x * 128 + threadIdx.x, y = blockIdx.y;
    if (x >= stride)
        return;
    unsigned char *to = cells + static_cast<size_t>(y) * width + 32 * x;
    const unsigned word = words[static_cast<size_t>(y) * stride + x];
    if (width % 32 == 0) {
#pragma unroll
        for (int part = 0; part < 2; part++) {
            unsigned four[4];
#pragma unroll
            for (int k = 0; k < 4; k++)
                four[k] = (word >> (16 * part + 4 * k) & 15u) * 0x00204081u & 0x01010101u;
            __stcs(reinterpret_cast<uint4 *>(to) + part, make_uint4(four[0], four[1], four[2], four[3]));
        }
    } else {
        for (int k = 0; k < min(32, width - 32 * x); k++)
            to[k] = word >> k & 1;
    }
}

// For each of 32 cells how many of it and its two neighbours in the row live: ones and twos.
struct Sums {
    unsigned one, two;
};

__device__ __forceinline__ Sums sums_of(unsigned own)
{
    const unsigned before = __shfl_up_sync(FULL, own, 1), after = __shfl_down_sync(FULL, own, 1);
    const unsigned left = __funnelshift_l(before, own, 1), right = __funnelshift_r(own, after, 1);
    return {left ^ own ^ right, (left & own) | (right & (left | own))};
}

// A cell lives on when it and its neighbours are three, or four of which it is one.
__device__ __forceinline__ unsigned lives(Sums a, Sums b, Sums c, unsigned own)
{
    const unsigned ones = a.one ^ b.one ^ c.one, carry = (a.one & b.one) | (c.one & (a.one | b.one));
    const unsigned odd = a.two ^ b.two ^ c.two, pair = (a.two & b.two) | (c.two & (a.two | b.two));
    const unsigned twos = odd ^ carry;
    return (ones & twos & ~pair) | (own & ~ones & ~twos & (pair ^ odd));
}

// Several steps on words that stay in registers: a lane a column of words, of which the outer two are only read,
// and AHEAD rows more than are stored on either side.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    steps_ahead(const unsigned *__restrict__ words, unsigned *__restrict__ next, int height, int width, int stride,
                int count)
{
    const int lane = threadIdx.x % 32;
    const int x = blockIdx.x * 30 - 1 + lane, y = (blockIdx.y * WARPS + threadIdx.x / 32) * ROWS - AHEAD;
    unsigned inside = 0;
    if (x >= 0 && x < stride)
        inside = width - 32 * x >= 32 ? FULL : (1u << (width - 32 * x)) - 1;
    unsigned row[HELD];
#pragma unroll
    for (int i = 0; i < HELD; i++)
        row[i] = inside && y + i >= 0 && y + i < height ? __ldg(words + static_cast<size_t>(y + i) * stride + x) : 0;
    for (int step = 0; step < count; step++) {
        Sums above = sums_of(row[0]), here = sums_of(row[1]);
#pragma unroll
        for (int i = 1; i < HELD - 1; i++) {
            const Sums below = sums_of(row[i + 1]);
            const unsigned result = lives(above, here, below, row[i]) & inside;
            row[i] = y + i >= 0 && y + i < height ? result : 0;
            above = here;
            here = below;
        }
    }
    if (lane == 0 || lane == 31 || !inside)
        return;
#pragma unroll
    for (int i = AHEAD; i < AHEAD + ROWS; i++)
        if (y + i < height)
            next[static_cast<size_t>(y + i) * stride + x] = row[i];
}
