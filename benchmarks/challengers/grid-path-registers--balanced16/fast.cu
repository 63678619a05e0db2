#define CHUNKS 4
#define CHUNK 128
#define ROWS 16
#define SPAN (CHUNKS * CHUNK)
#define USEFUL (SPAN - 2 * ROWS)
#define AHEAD 8
#define FAR 1000000000
#define FULL 0xffffffffu

__device__ __forceinline__ int4 load(const int *__restrict__ line, int col, int cols)
{
    if (cols % 4 == 0)
        return col >= 0 && col < cols ? __ldcs(reinterpret_cast<const int4 *>(line + col)) : make_int4(FAR, FAR, FAR, FAR);
    int cell[4];
#pragma unroll
    for (int c = 0; c < 4; c++)
        cell[c] = col + c >= 0 && col + c < cols ? line[col + c] : FAR;
    return make_int4(cell[0], cell[1], cell[2], cell[3]);
}

__device__ __forceinline__ int step(int left, int own, int right, int cost)
{
    return min(__vimin3_s32(left, own, right) + cost, FAR);
}

// A warp, alone in its block so that all multiprocessors get the same share, makes 16 rows of 512 columns, of which 16 on
// either side only help. A lane has four neighbours in each 128 columns, eight rows of costs on their way.
extern "C" __global__ void __launch_bounds__(32)
    steps(const int *__restrict__ costs, const int *__restrict__ before, int *__restrict__ best, int row, int rows,
          int cols)
{
    const int lane = threadIdx.x, col = static_cast<int>(blockIdx.x) * USEFUL - ROWS + 4 * lane;
    const int count = min(ROWS, rows - row);
    const int *line = costs + static_cast<size_t>(row) * cols;
    int4 cost[AHEAD][CHUNKS], value[CHUNKS];
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
        if (k < count)
#pragma unroll
            for (int c = 0; c < CHUNKS; c++)
                cost[k][c] = load(line + static_cast<size_t>(k) * cols, col + CHUNK * c, cols);
    line += static_cast<size_t>(AHEAD) * cols;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        if (row > 0) {
            value[c] = load(before, col + CHUNK * c, cols);
        } else {
            const int at = col + CHUNK * c;
            value[c] = make_int4(at >= 0 && at < cols ? 0 : FAR, at + 1 >= 0 && at + 1 < cols ? 0 : FAR,
                                 at + 2 >= 0 && at + 2 < cols ? 0 : FAR, at + 3 >= 0 && at + 3 < cols ? 0 : FAR);
        }
    }
#pragma unroll 1
    for (int base = 0; base < count; base += AHEAD) {
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (base + k >= count)
                break;
            // The last lane's right neighbour is the first lane's of the next chunk, and the other way about.
            int left[CHUNKS], right[CHUNKS];
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const int upward = lane == 31 ? (c > 0 ? value[c > 0 ? c - 1 : 0].w : FAR) : value[c].w;
                const int downward = lane == 0 ? (c + 1 < CHUNKS ? value[c + 1 < CHUNKS ? c + 1 : 0].x : FAR) : value[c].x;
                left[c] = __shfl_sync(FULL, upward, (lane + 31) % 32);
                right[c] = __shfl_sync(FULL, downward, (lane + 1) % 32);
            }
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const int4 own = value[c], more = cost[k][c];
                value[c] = make_int4(step(left[c], own.x, own.y, more.x), step(own.x, own.y, own.z, more.y),
                                     step(own.y, own.z, own.w, more.z), step(own.z, own.w, right[c], more.w));
                if (base + k + AHEAD < count)
                    cost[k][c] = load(line, col + CHUNK * c, cols);
            }
            line += cols;
        }
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const int at = col + CHUNK * c, place = CHUNK * c + 4 * lane;
        if (place < ROWS || place >= SPAN - ROWS || at >= cols)
            continue;
        if (cols % 4 == 0) {
            *reinterpret_cast<int4 *>(best + at) = value[c];
        } else {
            const int cell[4] = {value[c].x, value[c].y, value[c].z, value[c].w};
#pragma unroll
            for (int s = 0; s < 4; s++)
                if (at + s < cols)
                    best[at + s] = cell[s];
        }
    }
}
