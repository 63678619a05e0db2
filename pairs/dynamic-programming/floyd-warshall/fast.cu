#define T 64
#define SIDE 16
#define EACH (T / SIDE)
#define PITCH (T + 4)
#define FAR 1000000000

__device__ __forceinline__ void load_tile(int (*tile)[PITCH], const int *__restrict__ distances, int n, int row, int col)
{
    const int x = threadIdx.x * EACH, j = col * T + x;
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int y = threadIdx.y + r * SIDE, i = row * T + y;
        int4 load = make_int4(FAR, FAR, FAR, FAR);
        if (i < n && j + 3 < n && n % 4 == 0) {
            load = *reinterpret_cast<const int4 *>(distances + i * n + j);
        } else if (i < n) {
            load.x = j < n ? distances[i * n + j] : FAR;
            load.y = j + 1 < n ? distances[i * n + j + 1] : FAR;
            load.z = j + 2 < n ? distances[i * n + j + 2] : FAR;
            load.w = j + 3 < n ? distances[i * n + j + 3] : FAR;
        }
        *reinterpret_cast<int4 *>(&tile[y][x]) = load;
    }
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

__device__ __forceinline__ void publish(int (*tile)[PITCH], const int (&own)[EACH][EACH], int base, int e)
{
    if (threadIdx.y == base / EACH)
        *reinterpret_cast<int4 *>(&tile[base + e][threadIdx.x * EACH]) =
            make_int4(own[e][0], own[e][1], own[e][2], own[e][3]);
    if (threadIdx.x == base / EACH)
#pragma unroll
        for (int r = 0; r < EACH; r++)
            tile[threadIdx.y * EACH + r][base + e] = own[r][e];
}

extern "C" __global__ void __launch_bounds__(SIDE *SIDE) close_pivot(int *__restrict__ distances, int n, int round)
{
    __shared__ __align__(16) int tile[T][PITCH];
    int own[EACH][EACH];
    load_tile(tile, distances, n, round, round);
    __syncthreads();
    take(own, tile);
    for (int base = 0; base < T; base += EACH) {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            __syncthreads();
            publish(tile, own, base, e);
            __syncthreads();
            relax(own, tile, tile, base + e);
        }
    }
    store(distances, n, round, round, own);
}

extern "C" __global__ void __launch_bounds__(SIDE *SIDE) close_cross(int *__restrict__ distances, int n, int round)
{
    __shared__ __align__(16) int pivot[T][PITCH];
    __shared__ __align__(16) int tile[T][PITCH];
    int own[EACH][EACH];
    const int other = blockIdx.x < round ? blockIdx.x : blockIdx.x + 1;
    const bool is_row = blockIdx.y == 0;
    const int row = is_row ? round : other, col = is_row ? other : round;
    load_tile(pivot, distances, n, round, round);
    load_tile(tile, distances, n, row, col);
    __syncthreads();
    take(own, tile);
    for (int base = 0; base < T; base += EACH) {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            __syncthreads();
            publish(tile, own, base, e);
            __syncthreads();
            if (is_row)
                relax(own, pivot, tile, base + e);
            else
                relax(own, tile, pivot, base + e);
        }
    }
    store(distances, n, row, col, own);
}

extern "C" __global__ void __launch_bounds__(SIDE *SIDE) relax_rest(int *__restrict__ distances, int n, int round)
{
    __shared__ __align__(16) int left[T][PITCH];
    __shared__ __align__(16) int above[T][PITCH];
    if (blockIdx.x == round || blockIdx.y == round)
        return;
    int own[EACH][EACH];
    load_tile(left, distances, n, blockIdx.y, blockIdx.x);
    __syncthreads();
    take(own, left);
    __syncthreads();
    load_tile(left, distances, n, blockIdx.y, round);
    load_tile(above, distances, n, round, blockIdx.x);
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < T; k++)
        relax(own, left, above, k);
    store(distances, n, blockIdx.y, blockIdx.x, own);
}
