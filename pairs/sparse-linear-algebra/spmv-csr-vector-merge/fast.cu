#define THREADS 256
#define ITEMS 7
#define TILE (THREADS * ITEMS)
#define ALL 0xffffffffu

__device__ __forceinline__ int rows_before(const int *ends, int rows, int entries, int first, int diagonal)
{
    int low = max(0, diagonal - entries), high = min(diagonal, rows);
    while (low < high) {
        const int middle = (low + high) / 2;
        if (ends[middle] - first <= diagonal - 1 - middle)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

extern "C" __global__ void partition(const int *__restrict__ offsets, int *__restrict__ starts, int rows, int nnz,
                                     int tiles)
{
    const int tile = blockIdx.x * blockDim.x + threadIdx.x;
    if (tile <= tiles)
        starts[tile] = rows_before(offsets + 1, rows, nnz, 0, min(tile * TILE, rows + nnz));
}

__device__ __forceinline__ void scan_segments(bool &closed, float &sum)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const float before = __shfl_up_sync(ALL, sum, offset);
        const int ended = __shfl_up_sync(ALL, (int)closed, offset);
        if (lane >= offset) {
            sum += closed ? 0.0f : before;
            closed = closed || ended;
        }
    }
}

__device__ __forceinline__ float carry_in(bool closed, float sum, float &total)
{
    __shared__ float sums[THREADS / 32];
    __shared__ int ends[THREADS / 32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    scan_segments(closed, sum);
    if (lane == 31) {
        sums[warp] = sum;
        ends[warp] = closed;
    }
    __syncthreads();
    float before = 0.0f;
    for (int other = 0; other < warp; other++)
        before = sums[other] + (ends[other] ? 0.0f : before);
    total = sum + (closed ? 0.0f : before);
    const float left = __shfl_up_sync(ALL, sum, 1);
    const int left_closed = __shfl_up_sync(ALL, (int)closed, 1);
    if (lane == 0)
        return before;
    return left + (left_closed ? 0.0f : before);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    spmv(const int *__restrict__ offsets, const int *__restrict__ columns, const float *__restrict__ values,
         const float *__restrict__ x, float *__restrict__ y, const int *__restrict__ starts,
         int *__restrict__ open_rows, float *__restrict__ open_sums, int rows, int nnz)
{
    __shared__ int ends[TILE + 1];
    __shared__ float products[TILE];
    const int diagonal = blockIdx.x * TILE;
    const int items = min(TILE, rows + nnz - diagonal);
    const int first_row = starts[blockIdx.x], last_row = starts[blockIdx.x + 1];
    const int tile_rows = last_row - first_row;
    const int first = diagonal - first_row, entries = items - tile_rows;

    for (int i = threadIdx.x; i <= tile_rows; i += THREADS)
        ends[i] = offsets[min(first_row + i + 1, rows)] - first;
#pragma unroll
    for (int u = 0; u < ITEMS; u++) {
        const int i = threadIdx.x + u * THREADS;
        if (i < entries)
            products[i] = __ldcs(values + first + i) * __ldg(x + __ldcs(columns + first + i));
    }
    __syncthreads();

    const int mine = min((int)threadIdx.x * ITEMS, items);
    int row = rows_before(ends, tile_rows, entries, 0, mine);
    int entry = mine - row;
    int closing = -1;
    float sum = 0.0f, closing_sum = 0.0f;
#pragma unroll
    for (int u = 0; u < ITEMS; u++) {
        if (mine + u >= items)
            break;
        if (entry < ends[row]) {
            sum += products[entry++];
        } else {
            if (closing < 0) {
                closing = row;
                closing_sum = sum;
            } else {
                y[first_row + row] = sum;
            }
            sum = 0.0f;
            row++;
        }
    }
    float total;
    const float before = carry_in(closing >= 0, sum, total);
    if (closing >= 0)
        y[first_row + closing] = closing_sum + before;
    if (threadIdx.x == THREADS - 1) {
        open_rows[blockIdx.x] = last_row;
        open_sums[blockIdx.x] = total;
    }
}

extern "C" __global__ void finish(const int *__restrict__ open_rows, const float *__restrict__ open_sums,
                                  float *__restrict__ y, int rows, int tiles)
{
    int tile = blockIdx.x * blockDim.x + threadIdx.x;
    if (tile >= tiles)
        return;
    const int row = open_rows[tile];
    if (row >= rows || (tile > 0 && open_rows[tile - 1] == row))
        return;
    float sum = 0.0f;
    for (; tile < tiles && open_rows[tile] == row; tile++)
        sum += open_sums[tile];
    y[row] += sum;
}
