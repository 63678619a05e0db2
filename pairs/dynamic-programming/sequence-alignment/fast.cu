// Warps own strips of columns; a step of a lane is two rows of four cells. Scores carry the gaps of their row and column,
// so that a gap costs nothing and a cell is two maxima. A value that is still EMPTY tells a waiting strip that it has
// to look again: strips of a block pass rows through shared memory, blocks through global memory, fetched ahead.
#define CELLS 4
#define WARPS 4
#define STRIP (32 * CELLS)
#define BATCH 16
#define FULL 0xffffffffu
#define EMPTY (-2147483647 - 1)

__device__ __forceinline__ int look(const int *from)
{
    int value;
    asm volatile("ld.relaxed.gpu.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}

__device__ __forceinline__ void show(int *to, int value)
{
    asm volatile("st.relaxed.gpu.s32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

// A value that stays in a register, where the compiler would read it anew from constants or the thread index.
__device__ __forceinline__ int held(int value)
{
    asm volatile("mov.b32 %0, %0;" : "+r"(value));
    return value;
}

// One row of a lane's cells, from the value left of them and the one above that; returns the last.
__device__ __forceinline__ int row_of(int (&up)[CELLS], const int (&letter)[CELLS], int own, int left, int corner,
                                      int match, int mismatch)
{
    int best[CELLS];
#pragma unroll
    for (int c = 0; c < CELLS; c++)
        best[c] = __viaddmax_s32(c > 0 ? up[c > 0 ? c - 1 : 0] : corner, own == letter[c] ? match : mismatch, up[c]);
#pragma unroll
    for (int c = 0; c < CELLS; c++)
        up[c] = left = max(left, best[c]);
    return left;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    strips(const unsigned char *__restrict__ a, const unsigned char *__restrict__ b, int *edges, int *ticket,
           int *__restrict__ scores, int rows_of_a, int m, int match, int mismatch, int gap)
{
    extern __shared__ int inner[];
    __shared__ int block;
    const int n = held(rows_of_a), lane = held(threadIdx.x % 32), warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        block = atomicAdd(ticket, 1);
    for (int i = threadIdx.x; i < (WARPS - 1) * n; i += 32 * WARPS)
        inner[i] = EMPTY;
    __syncthreads();
    const int strip = block * WARPS + warp, first = strip * STRIP + lane * CELLS;
    if (strip * STRIP >= m)
        return;
    const int *from = warp > 0 ? inner + (warp - 1) * n : edges + static_cast<size_t>(block - 1) * n;
    int *to = warp + 1 < WARPS ? inner + warp * n : edges + static_cast<size_t>(block) * n;
    const int same = held(match + 2 * gap), other = held(mismatch + 2 * gap);

    int letter[CELLS], up[CELLS];
#pragma unroll
    for (int c = 0; c < CELLS; c++) {
        letter[c] = first + c < m ? b[first + c] : -1;
        up[c] = 0;
    }
    int corner = 0, last0 = 0, last1 = 0, rows = 0;
    int ahead_edge = strip > 0 && lane < min(BATCH, n) ? look(from + lane) : 0;
    int ahead_letter = lane < min(BATCH, n) ? a[lane] : 0;
    int edge = 0, letters = 0;
    const int pairs = (n + 1) / 2;
#pragma unroll 1
    for (int step = 0; step < pairs + 31; step++) {
        const int phase = 2 * step % BATCH;
        if (phase == 0 && step < pairs) {
            const int row = 2 * step + lane;
            edge = ahead_edge;
            while (edge == EMPTY)
                edge = look(from + row);
            __syncwarp();
            letters = ahead_letter | __shfl_down_sync(FULL, ahead_letter, 1) << 8;
            const bool more = lane < BATCH && row + BATCH < n;
            ahead_edge = strip > 0 && more ? look(from + row + BATCH) : 0;
            ahead_letter = more ? a[row + BATCH] : 0;
        }
        int left0 = __shfl_up_sync(FULL, last0, 1), left1 = __shfl_up_sync(FULL, last1, 1);
        rows = __shfl_up_sync(FULL, rows, 1);
        const int edge0 = __shfl_sync(FULL, edge, phase), edge1 = __shfl_sync(FULL, edge, phase + 1);
        const int next = __shfl_sync(FULL, letters, phase);
        if (lane == 0) {
            left0 = edge0;
            left1 = edge1;
            rows = next;
        }
        const int row = 2 * (step - lane);
        if (step >= 31 && 2 * step + 1 < n) {
            last0 = row_of(up, letter, rows & 255, left0, corner, same, other);
            last1 = row_of(up, letter, rows >> 8, left1, left0, same, other);
            corner = left1;
        } else if (row >= 0 && row < n) {
            last0 = row_of(up, letter, rows & 255, left0, corner, same, other);
            if (row + 1 < n)
                last1 = row_of(up, letter, rows >> 8, left1, left0, same, other);
            corner = left1;
        }
        if (lane == 31 && row >= 0) {
            show(to + row, last0);
            if (row + 1 < n)
                show(to + row + 1, last1);
        }
    }
#pragma unroll
    for (int c = 0; c < CELLS; c++)
        if (first + c < m)
            scores[first + c + 1] = up[c] - gap * (n + first + c + 1);
    if (strip == 0 && lane == 0)
        scores[0] = -gap * n;
}
