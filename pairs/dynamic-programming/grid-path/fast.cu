// A warp has its strip of columns from the first row to the last, the next rows of costs always on their way. Every
// ROWS rows neighbours exchange ROWS values on either side, each in a word with the number of the round. All blocks are
// resident, in a cooperative launch. A strip is at most one round ahead of its neighbours, so that two places suffice.
#define WARPS 6
#define ROWS 16
#define CELLS 8
#define SPAN (32 * CELLS)
#define USEFUL (SPAN - 2 * ROWS)
#define HALO (ROWS / CELLS)
#define AHEAD 4
#define FAR 1000000000
#define FULL 0xffffffffu

typedef unsigned long long word;

__device__ __forceinline__ void load(int (&cell)[CELLS], const int *__restrict__ line, int col, int cols, int outside)
{
    if (col >= 0 && col + CELLS <= cols && cols % 4 == 0) {
        const int4 low = __ldcs(reinterpret_cast<const int4 *>(line + col));
        const int4 high = __ldcs(reinterpret_cast<const int4 *>(line + col + 4));
        cell[0] = low.x;
        cell[1] = low.y;
        cell[2] = low.z;
        cell[3] = low.w;
        cell[4] = high.x;
        cell[5] = high.y;
        cell[6] = high.z;
        cell[7] = high.w;
    } else {
#pragma unroll
        for (int c = 0; c < CELLS; c++)
            cell[c] = col + c >= 0 && col + c < cols ? line[col + c] : outside;
    }
}

// The values beside a strip after `round` rounds: `edges` has for each of two rounds and for each strip first the
// leftmost ROWS of its own values, then the rightmost.
__device__ __forceinline__ void exchange(int (&value)[CELLS], word *edges, int strip, int strips, int round, int lane)
{
    word *place = edges + static_cast<size_t>(round % 2) * strips * 2 * ROWS;
    const bool right = lane >= ROWS, used = lane < 2 * ROWS;
    const int within = right ? lane - ROWS : lane, cell = within % CELLS;
    const int from = (right ? 32 - 2 * HALO : HALO) + within / CELLS;
    int mine = 0;
#pragma unroll
    for (int c = 0; c < CELLS; c++) {
        const int other = __shfl_sync(FULL, value[c], from % 32);
        mine = c == cell ? other : mine;
    }
    if (used)
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(place + strip * 2 * ROWS + lane),
                     "l"(static_cast<word>(round) << 32 | static_cast<unsigned>(mine))
                     : "memory");
    // The left neighbour's rightmost values, the right neighbour's leftmost.
    const int beside = right ? strip + 1 : strip - 1;
    word got = FAR;
    if (used && beside >= 0 && beside < strips)
        do
            asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];"
                         : "=l"(got)
                         : "l"(place + beside * 2 * ROWS + (right ? lane - ROWS : lane + ROWS))
                         : "memory");
        while ((got >> 32) != round);
    __syncwarp();
    const int first = lane < HALO ? lane * CELLS : ROWS + (lane - (32 - HALO)) * CELLS;
    const bool halo = lane < HALO || lane >= 32 - HALO;
#pragma unroll
    for (int c = 0; c < CELLS; c++) {
        const int other = __shfl_sync(FULL, static_cast<int>(got), (halo ? first : 0) + c);
        value[c] = halo ? other : value[c];
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, 3)
    steps(const int *__restrict__ costs, int *__restrict__ best, word *edges, int rows, int cols, int strips)
{
    const int lane = threadIdx.x % 32;
    const int strip = blockIdx.x * WARPS + threadIdx.x / 32;
    if (strip >= strips)
        return;
    const int col = strip * USEFUL - ROWS + lane * CELLS;
    int value[CELLS], cost[AHEAD][CELLS];
    const int *line = costs;
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {
        if (k < rows)
            load(cost[k], line, col, cols, FAR);
        line += cols;
    }
#pragma unroll
    for (int c = 0; c < CELLS; c++)
        value[c] = col + c >= 0 && col + c < cols ? 0 : FAR;
#pragma unroll 1
    for (int base = 0; base < rows; base += AHEAD) {
        if (base > 0 && base % ROWS == 0)
            exchange(value, edges, strip, strips, base / ROWS, lane);
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (base + k >= rows)
                break;
            int left = __shfl_up_sync(FULL, value[CELLS - 1], 1);
            const int right = __shfl_down_sync(FULL, value[0], 1);
            left = lane > 0 ? left : FAR;
#pragma unroll
            for (int c = 0; c < CELLS; c++) {
                const int next = c + 1 < CELLS ? value[c + 1] : (lane < 31 ? right : FAR);
                const int least = __vimin3_s32(left, value[c], next);
                left = value[c];
                value[c] = min(least + cost[k][c], FAR);
            }
            if (base + k + AHEAD < rows)
                load(cost[k], line, col, cols, FAR);
            line += cols;
        }
    }
    if (lane >= HALO && lane < 32 - HALO) {
        if (col + CELLS <= cols && cols % 4 == 0) {
            *reinterpret_cast<int4 *>(best + col) = make_int4(value[0], value[1], value[2], value[3]);
            *reinterpret_cast<int4 *>(best + col + 4) = make_int4(value[4], value[5], value[6], value[7]);
        } else {
#pragma unroll
            for (int c = 0; c < CELLS; c++)
                if (col + c < cols)
                    best[col + c] = value[c];
        }
    }
}
