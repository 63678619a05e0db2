#define RADIUS 3
#define SPAN (2 * RADIUS + 1)
#define SHIFTS 32
#define EACH 8
#define WARPS 4
#define WIDE (32 * EACH)
#define COLUMNS (EACH + SPAN - 1)
// Words of a row that a warp needs of both images; columns begin 4 and 40 pixels to the left of the first.
#define LEFT_WORDS (WIDE / 4 + 2)
#define RIGHT_BEFORE 40
#define RIGHT_WORDS (WIDE / 4 + RIGHT_BEFORE / 4 + 1)
#define PLACES(words) ((words) * 4 + (words) / 2 + 1)

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
__device__ __forceinline__ void turn(const unsigned *row, unsigned (&to)[4])
{
    const unsigned t = __byte_perm(row[0], row[1], 0x5140), u = __byte_perm(row[2], row[3], 0x5140);
    const unsigned v = __byte_perm(row[0], row[1], 0x7362), w = __byte_perm(row[2], row[3], 0x7362);
    to[0] = __byte_perm(t, u, 0x5410);
    to[1] = __byte_perm(t, u, 0x7632);
    to[2] = __byte_perm(v, w, 0x5410);
    to[3] = __byte_perm(v, w, 0x7632);
}

// Where a column stands: after eight, one place stays free, so that lanes eight columns apart meet different banks.
__device__ __forceinline__ constexpr int place_of(int column)
{
    return column + column / 8;
}

// Eight rows of four columns, from row `first` on.
__device__ __forceinline__ void put_word(uint2 *columns, int word, const unsigned char *__restrict__ image, int x, int first,
                                         int height, int width)
{
    unsigned rows[8], upper[4], lower[4];
#pragma unroll
    for (int i = 0; i < 8; i++)
        rows[i] = take(image + static_cast<size_t>(min(max(first + i, 0), height - 1)) * width, x, width);
    turn(rows, upper);
    turn(rows + 4, lower);
#pragma unroll
    for (int s = 0; s < 4; s++)
        columns[place_of(4 * word) + s] = make_uint2(upper[s], lower[s]);
}

// 32 times a column's differences in rows 0 to 6 and in rows 1 to 7, added to what came before.
__device__ __forceinline__ void add_column(uint2 ours, uint2 theirs, unsigned &first, unsigned &second)
{
    const unsigned upper = __vabsdiffu4(ours.x, theirs.x), lower = __vabsdiffu4(ours.y, theirs.y);
    first = __dp4a(lower, 0x00202020u, __dp4a(upper, 0x20202020u, first));
    second = __dp4a(lower, 0x20202020u, __dp4a(upper, 0x20202000u, second));
}

// A lane has eight pixels of two rows and tries one shift after another. Eight rows of a column in two words serve both
// rows of pixels. Of the fourteen columns, the first seven are added up towards the left and the others towards the
// right: each window is one of those sums and one of these, and an addition and a minimum are one instruction.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 4)
    match(const unsigned char *__restrict__ left, const unsigned char *__restrict__ right,
          unsigned char *__restrict__ shifts, int height, int width)
{
    __shared__ uint2 lefts[WARPS][PLACES(LEFT_WORDS)], rights[WARPS][PLACES(RIGHT_WORDS)];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int x = blockIdx.x * WIDE, y = (blockIdx.y * WARPS + warp) * 2;
    if (y >= height)
        return;
    for (int word = lane; word < LEFT_WORDS; word += 32)
        put_word(lefts[warp], word, left, x - 4 + 4 * word, y - RADIUS, height, width);
    for (int word = lane; word < RIGHT_WORDS; word += 32)
        put_word(rights[warp], word, right, x - RIGHT_BEFORE + 4 * word, y - RADIUS, height, width);
    __syncwarp();
    uint2 ours[COLUMNS];
#pragma unroll
    for (int k = 0; k < COLUMNS; k++)
        ours[k] = lefts[warp][place_of(EACH) * lane + place_of(k + 4 - RADIUS)];
    // The least of 32 times the sum and the shift.
    unsigned best[2][EACH];
#pragma unroll
    for (int p = 0; p < EACH; p++)
        best[0][p] = best[1][p] = 0xffffffffu;
#pragma unroll 1
    for (int base = 0; base < SHIFTS; base += 8) {
        const uint2 *theirs = rights[warp] + place_of(EACH) * (lane - base / 8);
#pragma unroll
        for (int u = 0; u < 8; u++) {
            const unsigned shift = base + u;
            unsigned before[2][SPAN + 1], after[2] = {};
            before[0][SPAN] = before[1][SPAN] = shift;
#pragma unroll
            for (int k = SPAN - 1; k >= 0; k--) {
                before[0][k] = before[0][k + 1];
                before[1][k] = before[1][k + 1];
                add_column(ours[k], theirs[place_of(k + RIGHT_BEFORE - RADIUS - u)], before[0][k], before[1][k]);
            }
#pragma unroll
            for (int p = 0; p < EACH; p++) {
                if (p > 0)
                    add_column(ours[p + SPAN - 1], theirs[place_of(p + SPAN - 1 + RIGHT_BEFORE - RADIUS - u)], after[0],
                               after[1]);
                best[0][p] = __viaddmin_u32(before[0][p], after[0], best[0][p]);
                best[1][p] = __viaddmin_u32(before[1][p], after[1], best[1][p]);
            }
        }
    }
    const int column = x + EACH * lane;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        if (y + r >= height || column >= width)
            break;
        unsigned char *to = shifts + static_cast<size_t>(y + r) * width + column;
        if (width % 8 == 0) {
            unsigned four[2] = {};
#pragma unroll
            for (int p = 0; p < EACH; p++)
                four[p / 4] |= (best[r][p] & 31) << 8 * (p % 4);
            *reinterpret_cast<uint2 *>(to) = make_uint2(four[0], four[1]);
        } else {
#pragma unroll
            for (int p = 0; p < EACH; p++)
                if (column + p < width)
                    to[p] = best[r][p] & 31;
        }
    }
}
