// A block makes 128 x 64 pixels. Bytes are compared two to a register, even and odd ones apart. Along a row a thread keeps
// the words of sixteen windows in registers and takes minima over doubling lengths; down a column eight results share the
// rows that all their windows have.
#define WARPS 8
#define OWN 8
#define ROWS (WARPS * OWN)
#define THREADS (32 * WARPS)
#define EACH 4
#define FAR 0x00ff00ffu

struct Pairs {
    unsigned even, odd;
};

__device__ __forceinline__ Pairs unpack(unsigned word) { return {word & FAR, word >> 8 & FAR}; }

__device__ __forceinline__ unsigned pack(Pairs v) { return v.even | v.odd << 8; }

__device__ __forceinline__ Pairs least(Pairs a, Pairs b) { return {__vminu2(a.even, b.even), __vminu2(a.odd, b.odd)}; }

// Four bytes from byte SHIFT of word `at` on; 255 behind the last word.
template <int SHIFT, int WORDS> __device__ __forceinline__ Pairs pairs_at(const Pairs (&words)[WORDS], int at)
{
    const int word = at + SHIFT / 4;
    const Pairs low = word < WORDS ? words[word] : Pairs{FAR, FAR};
    const Pairs high = word + 1 < WORDS ? words[word + 1] : Pairs{FAR, FAR};
    const unsigned even = __funnelshift_r(low.even, high.even, 16), odd = __funnelshift_r(low.odd, high.odd, 16);
    if constexpr (SHIFT % 4 == 0)
        return low;
    else if constexpr (SHIFT % 4 == 1)
        return {low.odd, even};
    else if constexpr (SHIFT % 4 == 2)
        return {even, odd};
    else
        return {odd, high.even};
}

// From minima over LENGTH bytes to minima over WINDOW bytes.
template <int LENGTH, int WINDOW, int WORDS> __device__ __forceinline__ void widen(Pairs (&words)[WORDS])
{
    if constexpr (LENGTH < WINDOW) {
        constexpr int STEP = LENGTH < WINDOW - LENGTH ? LENGTH : WINDOW - LENGTH;
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            words[i] = least(words[i], pairs_at<STEP>(words, i));
        widen<LENGTH + STEP, WINDOW>(words);
    }
}

template <int RADIUS>
__global__ void __launch_bounds__(THREADS)
    erode(const unsigned char *__restrict__ image, unsigned char *__restrict__ eroded, int height, int width)
{
    constexpr int WINDOW = 2 * RADIUS + 1, REACH = (RADIUS + 3) / 4, WORDS = 2 * REACH + EACH;
    constexpr int TALL = ROWS + 2 * RADIUS, WIDE = (32 + 2 * REACH + 3) / 4 * 4;
    __shared__ __align__(16) unsigned tile[TALL][WIDE], across[TALL][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int x = blockIdx.x * 128 - 4 * REACH, y = blockIdx.y * ROWS - RADIUS;
    for (int row = warp; row < TALL; row += WARPS) {
        const int i = y + row;
        const unsigned char *from = image + static_cast<size_t>(min(max(i, 0), height - 1)) * width;
#pragma unroll
        for (int word = lane; word < WIDE; word += 32) {
            const int j = x + 4 * word;
            unsigned four = 0xffffffffu;
            if (i >= 0 && i < height && j + 3 >= 0 && j < width) {
                if (width % 4 == 0) {
                    four = __ldg(reinterpret_cast<const unsigned *>(from + j));
                } else {
                    four = 0;
#pragma unroll
                    for (int s = 0; s < 4; s++)
                        four |= (j + s >= 0 && j + s < width ? static_cast<unsigned>(from[j + s]) : 255u) << 8 * s;
                }
            }
            tile[row][word] = four;
        }
    }
    __syncthreads();
    for (int row = warp * 4 + lane / 8; row < TALL; row += 4 * WARPS) {
        Pairs words[WORDS], shifted[WORDS];
#pragma unroll
        for (int i = 0; i < WORDS; i += 4) {
            const uint4 four = *reinterpret_cast<const uint4 *>(&tile[row][lane % 8 * EACH + i]);
            const unsigned word[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (i + e < WORDS)
                    words[i + e] = unpack(word[e]);
        }
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            shifted[i] = pairs_at<4 * REACH - RADIUS>(words, i);
        widen<1, WINDOW>(shifted);
        *reinterpret_cast<uint4 *>(&across[row][lane % 8 * EACH]) =
            make_uint4(pack(shifted[0]), pack(shifted[1]), pack(shifted[2]), pack(shifted[3]));
    }
    __syncthreads();
    const int base = warp * OWN;
    Pairs best[OWN];
    if constexpr (WINDOW >= OWN) {
        Pairs common = {FAR, FAR}, before = common, after = common;
#pragma unroll
        for (int row = OWN - 1; row < WINDOW; row++)
            common = least(common, unpack(across[base + row][lane]));
        best[OWN - 1] = common;
#pragma unroll
        for (int k = OWN - 2; k >= 0; k--) {
            before = least(before, unpack(across[base + k][lane]));
            best[k] = least(common, before);
        }
#pragma unroll
        for (int k = 1; k < OWN; k++) {
            after = least(after, unpack(across[base + WINDOW - 1 + k][lane]));
            best[k] = least(best[k], after);
        }
    } else {
#pragma unroll
        for (int k = 0; k < OWN; k++) {
            best[k] = unpack(across[base + k][lane]);
#pragma unroll
            for (int row = 1; row < WINDOW; row++)
                best[k] = least(best[k], unpack(across[base + k + row][lane]));
        }
    }
    unsigned result[OWN];
#pragma unroll
    for (int k = 0; k < OWN; k++)
        result[k] = pack(best[k]);
    const int col = blockIdx.x * 128 + 4 * lane;
#pragma unroll
    for (int k = 0; k < OWN; k++) {
        const int row = blockIdx.y * ROWS + base + k;
        if (row >= height || col >= width)
            continue;
        unsigned char *to = eroded + static_cast<size_t>(row) * width + col;
        if (width % 4 == 0) {
            *reinterpret_cast<unsigned *>(to) = result[k];
        } else {
#pragma unroll
            for (int s = 0; s < 4; s++)
                if (col + s < width)
                    to[s] = result[k] >> 8 * s;
        }
    }
}
