#define SIDE 16
#define WARPS 4
#define THREADS (32 * WARPS)
#define COLS 128
#define ROWS (16 * WARPS)
#define TALL (ROWS + SIDE - 1)
#define PITCH 176
#define STRIPS (COLS / 16)
#define OWN_PITCH (COLS + 4)
#define FULL 0xffffffffu

struct Shared {
    uint4 pixels[TALL * PITCH / 16];
    uint4 band[SIDE][32];
    int own[ROWS][OWN_PITCH];
    unsigned padded[SIDE][13];
    unsigned squares;
};

__device__ __forceinline__ void load_matrices(unsigned (&to)[4], unsigned from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

// The rows' left 16 bytes and their right 16 bytes, by one band.
__device__ __forceinline__ void multiply(int (&d)[4], const unsigned *left, const unsigned *right, unsigned b0,
                                         unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(left[0]), "r"(left[1]), "r"(right[0]), "r"(right[1]), "r"(b0), "r"(b1));
}

// Sixteen pixels on their way to shared memory, zeros outside the image.
__device__ __forceinline__ void copy_sixteen(uint4 *to, const unsigned char *__restrict__ image, int i, int j, int height,
                                             int width)
{
    const bool inside = i < height && j < width;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(image + (inside ? static_cast<size_t>(i) * width + j : 0)), "r"(inside ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ uint4 load_sixteen(const unsigned char *__restrict__ image, int i, int j, int height,
                                              int width)
{
    unsigned words[4] = {};
    if (i < height) {
#pragma unroll
        for (int s = 0; s < 16; s++)
            if (j + s < width)
                words[s / 4] |= static_cast<unsigned>(image[static_cast<size_t>(i) * width + j + s]) << 8 * (s % 4);
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

// Of four neighbouring windows, the squares of sixteen pixels of a row: they share twelve.
__device__ __forceinline__ int4 squares_of(const unsigned *row)
{
    const unsigned first = row[0], last = row[4];
    const unsigned common = __dp4a(row[1], row[1], __dp4a(row[2], row[2], __dp4a(row[3], row[3], 0u)));
    const unsigned mixed[3] = {__byte_perm(first, last, 0x3214), __byte_perm(first, last, 0x3254),
                               __byte_perm(first, last, 0x3654)};
    return make_int4(__dp4a(first, first, common), __dp4a(mixed[0], mixed[0], common),
                     __dp4a(mixed[1], mixed[1], common), __dp4a(mixed[2], mixed[2], common));
}

// (i - t)^2 = i^2 - 2*i*t + t^2. The products come from tensor cores: 16 rows of 32 pixels by a band matrix of a row of the
// pattern make 16 x 16 places. The squares are sums that slide down. A warp has 128 x 16 places. All pixels of a block are on
// their way at once, by asynchronous copies.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    match(const unsigned char *__restrict__ image, const unsigned char *__restrict__ pattern,
          int *__restrict__ differences, int height, int width)
{
    extern __shared__ __align__(16) unsigned char memory[];
    Shared &shared = *reinterpret_cast<Shared *>(memory);
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const int x = blockIdx.x * COLS, y = blockIdx.y * ROWS;
    for (int item = thread; item < TALL * (COLS / 16 + 2); item += THREADS) {
        const int row = item / (COLS / 16 + 2), chunk = item % (COLS / 16 + 2);
        const int i = y + row, j = x + chunk * 16;
        uint4 *to = shared.pixels + row * (PITCH / 16) + chunk;
        if (width % 16 == 0)
            copy_sixteen(to, image, i, j, height, width);
        else
            *to = load_sixteen(image, i, j, height, width);
    }
    for (int item = thread; item < SIDE * 13; item += THREADS) {
        const int row = item / 13, word = item % 13 - 4;
        shared.padded[row][word + 4] =
            word >= 0 && word < 4 ? reinterpret_cast<const unsigned *>(pattern)[row * 4 + word] : 0;
    }
    if (warp == 0) {
        const unsigned *words = reinterpret_cast<const unsigned *>(pattern) + 2 * lane;
        const unsigned own = words[0], other = words[1];
        const unsigned sum = __reduce_add_sync(FULL, __dp4a(own, own, __dp4a(other, other, 0u)));
        if (lane == 0)
            shared.squares = sum;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    // Column c of half h is place 4 (c / 2) + 2 h + c % 2 of sixteen: so a lane has four neighbours of a row.
    for (int row = warp; row < SIDE; row += WARPS) {
        unsigned words[4];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const int place = 4 * (lane / 8) + 2 * (k / 2) + lane / 4 % 2;
            const int at = 16 + 16 * (k % 2) + 4 * (lane % 4) - place;
            words[k] = __funnelshift_r(shared.padded[row][at / 4], shared.padded[row][at / 4 + 1], 8 * (at % 4));
        }
        shared.band[row][lane] = make_uint4(words[0], words[1], words[2], words[3]);
    }
    {
        const unsigned *from = reinterpret_cast<const unsigned *>(shared.pixels) + warp * 16 * (PITCH / 4) + lane;
        int4 line[SIDE], sum = make_int4(0, 0, 0, 0);
#pragma unroll
        for (int i = 0; i < 2 * SIDE - 1; i++) {
            const int4 next = squares_of(from + i * (PITCH / 4));
            sum = make_int4(sum.x + next.x, sum.y + next.y, sum.z + next.z, sum.w + next.w);
            if (i >= SIDE - 1) {
                *reinterpret_cast<int4 *>(&shared.own[warp * 16 + i - SIDE + 1][4 * lane]) = sum;
                const int4 gone = line[i - SIDE + 1];
                sum = make_int4(sum.x - gone.x, sum.y - gone.y, sum.z - gone.z, sum.w - gone.w);
            }
            if (i < SIDE)
                line[i] = next;
        }
    }
    __syncthreads();
    int cross[STRIPS][2][4] = {};
    unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(shared.pixels)) + (warp * 16 + lane % 16) * PITCH +
                  lane / 16 * 16;
#pragma unroll 1
    for (int row = 0; row < SIDE; row++, at += PITCH) {
        unsigned part[STRIPS / 2 + 1][4];
#pragma unroll
        for (int p = 0; p <= STRIPS / 2; p++)
            load_matrices(part[p], at + 32 * p);
        const uint4 band = shared.band[row][lane];
#pragma unroll
        for (int s = 0; s < STRIPS; s++) {
            const unsigned *left = part[s / 2] + s % 2 * 2, *right = part[(s + 1) / 2] + (s + 1) % 2 * 2;
            multiply(cross[s][0], left, right, band.x, band.y);
            multiply(cross[s][1], left, right, band.z, band.w);
        }
    }
    const int squares = static_cast<int>(shared.squares);
#pragma unroll
    for (int s = 0; s < STRIPS; s++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int4 *place = reinterpret_cast<int4 *>(&shared.own[warp * 16 + half * 8 + lane / 4][16 * s + lane % 4 * 4]);
            const int *low = cross[s][0] + 2 * half, *high = cross[s][1] + 2 * half;
            const int4 own = *place;
            *place = make_int4(own.x + squares - 2 * low[0], own.y + squares - 2 * low[1], own.z + squares - 2 * high[0],
                               own.w + squares - 2 * high[1]);
        }
    }
    __syncwarp();
    const int out_width = width - SIDE + 1, out_height = height - SIDE + 1;
#pragma unroll 4
    for (int row = 0; row < 16; row++) {
        const int i = y + warp * 16 + row;
        if (i >= out_height)
            break;
        int *to = differences + static_cast<size_t>(i) * out_width + x;
#pragma unroll
        for (int s = 0; s < COLS / 32; s++)
            if (x + lane + 32 * s < out_width)
                __stcs(to + lane + 32 * s, shared.own[warp * 16 + row][lane + 32 * s]);
    }
}
