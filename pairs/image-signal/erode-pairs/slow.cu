// A block makes 128 x 64 pixels, four a word. Along a row a thread keeps the words of its window in registers and
// takes minima over doubling lengths; down a column eight results share the rows that all their windows have.
#define WARPS 8
#define OWN 8
#define ROWS (WARPS * OWN)
#define THREADS (32 * WARPS)

// Four bytes from byte SHIFT of word `at` on; 255 behind the last word.
template <int SHIFT, int WORDS> __device__ __forceinline__ unsigned bytes_at(const unsigned (&words)[WORDS], int at)
{
    const int word = at + SHIFT / 4;
    const unsigned low = word < WORDS ? words[word] : 0xffffffffu;
    const unsigned high = word + 1 < WORDS ? words[word + 1] : 0xffffffffu;
    return SHIFT % 4 ? __funnelshift_r(low, high, SHIFT % 4 * 8) : low;
}

// From minima over LENGTH bytes to minima over WINDOW bytes.
template <int LENGTH, int WINDOW, int WORDS> __device__ __forceinline__ void widen(unsigned (&words)[WORDS])
{
    if constexpr (LENGTH < WINDOW) {
        constexpr int STEP = LENGTH < WINDOW - LENGTH ? LENGTH : WINDOW - LENGTH;
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            words[i] = __vminu4(words[i], bytes_at<STEP>(words, i));
        widen<LENGTH + STEP, WINDOW>(words);
    }
}

template <int RADIUS>
__global__ void __launch_bounds__(THREADS)
    erode(const unsigned char *__restrict__ image, unsigned char *__restrict__ eroded, int height, int width)
{
    constexpr int WINDOW = 2 * RADIUS + 1, REACH = (RADIUS + 3) / 4, WORDS = 2 * REACH + 1;
    constexpr int TALL = ROWS + 2 * RADIUS, WIDE = 32 + 2 * REACH;
    __shared__ unsigned tile[TALL][WIDE], across[TALL][32];
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
    for (int row = warp; row < TALL; row += WARPS) {
        unsigned words[WORDS], shifted[WORDS];
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            words[i] = tile[row][lane + i];
#pragma unroll
        for (int i = 0; i < WORDS; i++)
            shifted[i] = bytes_at<4 * REACH - RADIUS>(words, i);
        widen<1, WINDOW>(shifted);
        across[row][lane] = shifted[0];
    }
    __syncthreads();
    const int base = warp * OWN;
    unsigned result[OWN];
    if constexpr (WINDOW >= OWN) {
        unsigned common = 0xffffffffu, before = 0xffffffffu, after = 0xffffffffu;
#pragma unroll
        for (int row = OWN - 1; row < WINDOW; row++)
            common = __vminu4(common, across[base + row][lane]);
        result[OWN - 1] = common;
#pragma unroll
        for (int k = OWN - 2; k >= 0; k--) {
            before = __vminu4(before, across[base + k][lane]);
            result[k] = __vminu4(common, before);
        }
#pragma unroll
        for (int k = 1; k < OWN; k++) {
            after = __vminu4(after, across[base + WINDOW - 1 + k][lane]);
            result[k] = __vminu4(result[k], after);
        }
    } else {
#pragma unroll
        for (int k = 0; k < OWN; k++) {
            result[k] = across[base + k][lane];
#pragma unroll
            for (int row = 1; row < WINDOW; row++)
                result[k] = __vminu4(result[k], across[base + k + row][lane]);
        }
    }
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
