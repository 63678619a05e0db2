#define SIDE 16
#define REACH 8
#define ACROSS (2 * REACH + 1)
#define ROWS (SIDE + 2 * REACH)
#define WORDS 10
#define GROUPS 5
#define THREADS 96
#define FULL 0xffffffffu

// Both windows in shared memory; four neighbouring moves per thread, four bytes per instruction.
extern "C" __global__ void __launch_bounds__(THREADS)
    search(const unsigned char *__restrict__ now, const unsigned char *__restrict__ before, int *__restrict__ moves,
           int *__restrict__ costs, int height, int width)
{
    __shared__ uint4 block[SIDE];
    __shared__ unsigned window[ROWS * WORDS];
    __shared__ unsigned least[THREADS / 32];
    const int y = blockIdx.y * SIDE, x = blockIdx.x * SIDE;
    for (int item = threadIdx.x; item < SIDE * 4; item += THREADS) {
        const unsigned char *from = now + static_cast<size_t>(y + item / 4) * width + x + item % 4 * 4;
        unsigned four = 0;
        if (width % 4 == 0) {
            four = __ldg(reinterpret_cast<const unsigned *>(from));
        } else {
#pragma unroll
            for (int s = 0; s < 4; s++)
                four |= static_cast<unsigned>(from[s]) << 8 * s;
        }
        reinterpret_cast<unsigned *>(block)[item] = four;
    }
    for (int item = threadIdx.x; item < ROWS * WORDS; item += THREADS) {
        const int i = min(max(y - REACH + item / WORDS, 0), height - 1), j = x - REACH + item % WORDS * 4;
        const unsigned char *row = before + static_cast<size_t>(i) * width;
        unsigned four = 0;
        if (width % 4 == 0 && j >= 0 && j < width) {
            four = __ldg(reinterpret_cast<const unsigned *>(row + j));
        } else {
#pragma unroll
            for (int s = 0; s < 4; s++)
                four |= static_cast<unsigned>(row[min(max(j + s, 0), width - 1)]) << 8 * s;
        }
        window[item] = four;
    }
    __syncthreads();
    unsigned best = FULL;
    if (threadIdx.x < ACROSS * GROUPS) {
        const int dy = threadIdx.x / GROUPS, group = threadIdx.x % GROUPS;
        unsigned sum[4] = {};
#pragma unroll
        for (int i = 0; i < SIDE; i++) {
            const unsigned *row = window + (dy + i) * WORDS + group;
            const uint4 own = block[i];
            const unsigned word[5] = {row[0], row[1], row[2], row[3], row[4]}, mine[4] = {own.x, own.y, own.z, own.w};
#pragma unroll
            for (int s = 0; s < 4; s++)
#pragma unroll
                for (int w = 0; w < 4; w++)
                    sum[s] += __vsadu4(mine[w], __funnelshift_r(word[w], word[w + 1], 8 * s));
        }
#pragma unroll
        for (int s = 0; s < 4; s++)
            if (group * 4 + s < ACROSS)
                best = min(best, sum[s] << 9 | (dy * ACROSS + group * 4 + s));
    }
    best = __reduce_min_sync(FULL, best);
    if (threadIdx.x % 32 == 0)
        least[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        best = min(least[0], min(least[1], least[2]));
        moves[blockIdx.y * gridDim.x + blockIdx.x] = best & 511;
        costs[blockIdx.y * gridDim.x + blockIdx.x] = best >> 9;
    }
}
