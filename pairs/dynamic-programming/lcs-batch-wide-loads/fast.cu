// Where a string equals each of four letters is noted once in shared memory, a word of 128 letters that a letter of the
// other string looks up in one load; sums of 128 bits are one chain of carries.
#define THREADS 64

// 16 letters of a text, four a word; those behind its end are zeros.
__device__ __forceinline__ uint4 read_letters(const unsigned char *__restrict__ text, int first, int end)
{
    if (end % 16 == 0)
        return first < end ? __ldg(reinterpret_cast<const uint4 *>(text + first)) : make_uint4(0, 0, 0, 0);
    unsigned four[4] = {0, 0, 0, 0};
#pragma unroll
    for (int k = 0; k < 16; k++)
        if (first + k < end)
            four[k / 4] |= static_cast<unsigned>(text[first + k]) << 8 * (k % 4);
    return make_uint4(four[0], four[1], four[2], four[3]);
}

// The lowest bits of four bytes, side by side.
__device__ __forceinline__ unsigned lowest(unsigned four)
{
    return (four & 0x01010101u) * 0x01020408u >> 24;
}

__device__ __forceinline__ unsigned lowest(const uint4 &v)
{
    return lowest(v.x) | lowest(v.y) << 4 | lowest(v.z) << 8 | lowest(v.w) << 12;
}

__device__ __forceinline__ uint4 shifted(const uint4 &v)
{
    return make_uint4(v.x >> 1, v.y >> 1, v.z >> 1, v.w >> 1);
}

// Where 128 letters equal each of four letters, `next` words of sixteen bytes apart.
__device__ __forceinline__ void note_letters(const unsigned char *__restrict__ text, int first, int end, uint4 *equal,
                                             int next)
{
    unsigned low[4], high[4];
#pragma unroll
    for (int w = 0; w < 4; w++) {
        const uint4 front = read_letters(text, first + 32 * w, end), back = read_letters(text, first + 32 * w + 16, end);
        low[w] = lowest(front) | lowest(back) << 16;
        high[w] = lowest(shifted(front)) | lowest(shifted(back)) << 16;
    }
#pragma unroll
    for (int letter = 0; letter < 4; letter++) {
        unsigned same[4];
#pragma unroll
        for (int w = 0; w < 4; w++)
            same[w] = (letter & 1 ? low[w] : ~low[w]) & (letter & 2 ? high[w] : ~high[w]);
        equal[letter * next] = make_uint4(same[0], same[1], same[2], same[3]);
    }
}

// Adds 128 bits to 128 bits; the carry goes on to the next part if there are several.
template <bool SEVERAL>
__device__ __forceinline__ void add(unsigned (&sum)[4], const unsigned (&by)[4], unsigned &carry)
{
    if (SEVERAL)
        asm("{.reg .u32 t; add.cc.u32 t, %4, 0xffffffff; addc.cc.u32 %0, %0, %5; addc.cc.u32 %1, %1, %6; "
            "addc.cc.u32 %2, %2, %7; addc.cc.u32 %3, %3, %8; addc.u32 %4, 0, 0;}"
            : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3]), "+r"(carry)
            : "r"(by[0]), "r"(by[1]), "r"(by[2]), "r"(by[3]));
    else
        asm("add.cc.u32 %0, %0, %4; addc.cc.u32 %1, %1, %5; addc.cc.u32 %2, %2, %6; addc.u32 %3, %3, %7;"
            : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
            : "r"(by[0]), "r"(by[1]), "r"(by[2]), "r"(by[3]));
}

// A column of the table as bits, zero where it grows by one; a letter costs twelve operations for 128 rows.
template <int PARTS>
__device__ __forceinline__ void next_column(unsigned (&flat)[PARTS][4], const uint4 *equal)
{
    unsigned carry = 0;
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        const uint4 v = equal[p * THREADS];
        const unsigned same[4] = {v.x, v.y, v.z, v.w};
        unsigned both[4], sum[4];
#pragma unroll
        for (int w = 0; w < 4; w++) {
            both[w] = flat[p][w] & same[w];
            sum[w] = flat[p][w];
        }
        add<(PARTS > 1)>(sum, both, carry);
#pragma unroll
        for (int w = 0; w < 4; w++)
            flat[p][w] = sum[w] | (flat[p][w] & ~same[w]);
    }
}

template <int PARTS>
__global__ void __launch_bounds__(THREADS)
    longest(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, int *__restrict__ lengths,
            int pairs, int m, int n)
{
    extern __shared__ uint4 table[];
    const int pair = blockIdx.x * THREADS + threadIdx.x;
    if (pair >= pairs)
        return;
    const unsigned char *text_a = a + static_cast<size_t>(pair) * m;
    const unsigned char *text_b = b + static_cast<size_t>(pair) * n;
    uint4 *equal = table + threadIdx.x;
    uint4 next = read_letters(text_b, 0, n);
    unsigned flat[PARTS][4];
#pragma unroll
    for (int p = 0; p < PARTS; p++) {
        note_letters(text_a, 128 * p, m, equal + p * THREADS, PARTS * THREADS);
#pragma unroll
        for (int w = 0; w < 4; w++)
            flat[p][w] = 0xffffffffu;
    }
#pragma unroll 1
    for (int i = 0; i < n; i += 16) {
        const unsigned four[4] = {next.x, next.y, next.z, next.w};
        next = read_letters(text_b, i + 16, n);
        if (i + 16 <= n) {
#pragma unroll
            for (int k = 0; k < 16; k++) {
                const int letter = four[k / 4] >> 8 * (k % 4) & 3;
                next_column<PARTS>(flat, equal + letter * (PARTS * THREADS));
            }
        } else {
            for (int k = i; k < n; k++)
                next_column<PARTS>(flat, equal + (text_b[k] & 3) * (PARTS * THREADS));
        }
    }
    int length = 0;
#pragma unroll
    for (int p = 0; p < PARTS; p++)
#pragma unroll
        for (int w = 0; w < 4; w++) {
            const int rows = min(max(m - 128 * p - 32 * w, 0), 32);
            length += rows - (rows > 0 ? __popc(flat[p][w] << (32 - rows)) : 0);
        }
    lengths[pair] = length;
}
