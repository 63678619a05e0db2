#define WARPS 8
#define ROWS 16
#define CELLS 8
#define SPAN (32 * CELLS)
#define USEFUL (SPAN - 2 * ROWS)
#define DEPTH 4
#define FAR 1000000000
#define FULL 0xffffffffu

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

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    steps(const int *__restrict__ costs, const int *__restrict__ before, int *__restrict__ best, int row, int rows,
          int cols)
{
    const int lane = threadIdx.x % 32;
    const int strip = blockIdx.x * WARPS + threadIdx.x / 32;
    const int start = strip * USEFUL - ROWS;
    if (start + ROWS >= cols)
        return;
    const int col = start + lane * CELLS;
    int value[CELLS];
    if (row > 0) {
        load(value, before, col, cols, FAR);
    } else {
#pragma unroll
        for (int c = 0; c < CELLS; c++)
            value[c] = col + c >= 0 && col + c < cols ? 0 : FAR;
    }
    const int count = min(ROWS, rows - row);
    const int *line = costs + static_cast<size_t>(row) * cols;
    for (int r = 0; r < count; r += DEPTH) {
        int cost[DEPTH][CELLS];
#pragma unroll
        for (int d = 0; d < DEPTH; d++)
            if (r + d < count)
                load(cost[d], line + static_cast<size_t>(r + d) * cols, col, cols, FAR);
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            if (r + d >= count)
                break;
            int left = __shfl_up_sync(FULL, value[CELLS - 1], 1);
            const int right = __shfl_down_sync(FULL, value[0], 1);
            left = lane > 0 ? left : FAR;
#pragma unroll
            for (int c = 0; c < CELLS; c++) {
                const int next = c + 1 < CELLS ? value[c + 1] : (lane < 31 ? right : FAR);
                const int least = __vimin3_s32(left, value[c], next);
                left = value[c];
                value[c] = min(least + cost[d][c], FAR);
            }
        }
    }
    if (lane >= ROWS / CELLS && lane < 32 - ROWS / CELLS) {
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
