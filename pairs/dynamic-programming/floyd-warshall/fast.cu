#define T 64
#define SIDE 16
#define EACH (T / SIDE)
#define PITCH (T + 4)
#define FAR 1000000000

__device__ __forceinline__ void fetch(int4 (&cells)[EACH], const int *__restrict__ distances, int n, int row, int col)
{
    const int j = col * T + threadIdx.x * EACH;
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int i = row * T + threadIdx.y + r * SIDE;
        int4 load = make_int4(FAR, FAR, FAR, FAR);
        if (i < n && j + 3 < n && n % 4 == 0) {
            load = *reinterpret_cast<const int4 *>(distances + i * n + j);
        } else if (i < n) {
            load.x = j < n ? distances[i * n + j] : FAR;
            load.y = j + 1 < n ? distances[i * n + j + 1] : FAR;
            load.z = j + 2 < n ? distances[i * n + j + 2] : FAR;
            load.w = j + 3 < n ? distances[i * n + j + 3] : FAR;
        }
        cells[r] = load;
    }
}

__device__ __forceinline__ void put(int (*tile)[PITCH], const int4 (&cells)[EACH])
{
#pragma unroll
    for (int r = 0; r < EACH; r++)
        *reinterpret_cast<int4 *>(&tile[threadIdx.y + r * SIDE][threadIdx.x * EACH]) = cells[r];
}

__device__ __forceinline__ void load_tile(int (*tile)[PITCH], const int *__restrict__ distances, int n, int row, int col)
{
    int4 cells[EACH];
    fetch(cells, distances, n, row, col);
    put(tile, cells);
}

__device__ __forceinline__ void store(int *distances, int n, int row, int col, const int (&own)[EACH][EACH])
{
    const int j = col * T + threadIdx.x * EACH;
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int i = row * T + threadIdx.y * EACH + r;
        if (i < n && j + 3 < n && n % 4 == 0) {
            *reinterpret_cast<int4 *>(distances + i * n + j) =
                make_int4(own[r][0], own[r][1], own[r][2], own[r][3]);
        } else if (i < n) {
#pragma unroll
            for (int c = 0; c < EACH; c++)
                if (j + c < n)
                    distances[i * n + j + c] = own[r][c];
        }
    }
}

__device__ __forceinline__ void read(int (&own)[EACH][EACH], const int *__restrict__ distances, int n, int row, int col)
{
    const int j = col * T + threadIdx.x * EACH;
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int i = row * T + threadIdx.y * EACH + r;
        if (i < n && j + 3 < n && n % 4 == 0) {
            const int4 cells = *reinterpret_cast<const int4 *>(distances + i * n + j);
            own[r][0] = cells.x;
            own[r][1] = cells.y;
            own[r][2] = cells.z;
            own[r][3] = cells.w;
        } else {
#pragma unroll
            for (int c = 0; c < EACH; c++)
                own[r][c] = i < n && j + c < n ? distances[i * n + j + c] : FAR;
        }
    }
}

__device__ __forceinline__ void take(int (&own)[EACH][EACH], const int (*tile)[PITCH])
{
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int4 row = *reinterpret_cast<const int4 *>(&tile[threadIdx.y * EACH + r][threadIdx.x * EACH]);
        own[r][0] = row.x;
        own[r][1] = row.y;
        own[r][2] = row.z;
        own[r][3] = row.w;
    }
}

__device__ __forceinline__ void relax(int (&own)[EACH][EACH], const int (*left)[PITCH], const int (*above)[PITCH], int k)
{
    const int4 right = *reinterpret_cast<const int4 *>(&above[k][threadIdx.x * EACH]);
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int to = left[threadIdx.y * EACH + r][k];
        own[r][0] = min(own[r][0], to + right.x);
        own[r][1] = min(own[r][1], to + right.y);
        own[r][2] = min(own[r][2], to + right.z);
        own[r][3] = min(own[r][3], to + right.w);
    }
}

// The rows and the columns of a step go to places of their own, so that one barrier a step is enough.
__device__ __forceinline__ void publish(int (*left)[PITCH], int (*above)[PITCH], const int (&own)[EACH][EACH], int base,
                                        int e)
{
    if (threadIdx.y == base / EACH)
        *reinterpret_cast<int4 *>(&above[base + e][threadIdx.x * EACH]) =
            make_int4(own[e][0], own[e][1], own[e][2], own[e][3]);
    if (threadIdx.x == base / EACH)
#pragma unroll
        for (int r = 0; r < EACH; r++)
            left[threadIdx.y * EACH + r][base + e] = own[r][e];
}

// Every block closes the pivot for itself. Paths through a closed pivot need only the old tile of its row or column: no
// step waits for another. The pivot goes to memory with the rest, when nobody needs its old values any more.
extern "C" __global__ void __launch_bounds__(SIDE *SIDE)
    close_cross(int *__restrict__ distances, int *__restrict__ closed, int n, int round)
{
    __shared__ __align__(16) int left[T][PITCH];
    __shared__ __align__(16) int above[T][PITCH];
    int own[EACH][EACH];
    int4 later[EACH];
    const int other = blockIdx.x < round ? blockIdx.x : blockIdx.x + 1;
    const bool is_row = blockIdx.y == 0;
    const int row = is_row ? round : other, col = is_row ? other : round;
    load_tile(above, distances, n, round, round);
    fetch(later, distances, n, row, col);
    __syncthreads();
    take(own, above);
    __syncthreads();
    for (int base = 0; base < T; base += EACH) {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            publish(left, above, own, base, e);
            __syncthreads();
            relax(own, left, above, base + e);
        }
    }
    __syncthreads();
    put(left, later);
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int4 cells = make_int4(own[r][0], own[r][1], own[r][2], own[r][3]);
        const int place = (threadIdx.y * EACH + r) * T + threadIdx.x * EACH;
        *reinterpret_cast<int4 *>(&above[threadIdx.y * EACH + r][threadIdx.x * EACH]) = cells;
        if (blockIdx.x == 0 && is_row)
            *reinterpret_cast<int4 *>(closed + place) = cells;
    }
    __syncthreads();
    take(own, left);
#pragma unroll 8
    for (int k = 0; k < T; k++)
        relax(own, is_row ? above : left, is_row ? left : above, k);
    store(distances, n, row, col, own);
}

extern "C" __global__ void __launch_bounds__(SIDE *SIDE)
    relax_rest(int *__restrict__ distances, const int *__restrict__ closed, int n, int round)
{
    __shared__ __align__(16) int left[T][PITCH];
    __shared__ __align__(16) int above[T][PITCH];
    int own[EACH][EACH];
    if (blockIdx.x == round && blockIdx.y == round) {
#pragma unroll
        for (int r = 0; r < EACH; r++)
#pragma unroll
            for (int c = 0; c < EACH; c++)
                own[r][c] = closed[(threadIdx.y * EACH + r) * T + threadIdx.x * EACH + c];
        store(distances, n, round, round, own);
    }
    if (blockIdx.x == round || blockIdx.y == round)
        return;
    load_tile(left, distances, n, blockIdx.y, round);
    load_tile(above, distances, n, round, blockIdx.x);
    read(own, distances, n, blockIdx.y, blockIdx.x);
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < T; k++)
        relax(own, left, above, k);
    store(distances, n, blockIdx.y, blockIdx.x, own);
}
