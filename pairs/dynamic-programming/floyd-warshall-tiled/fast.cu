#define T 32
#define FAR 1000000000

__device__ int read(const int *distances, int n, int i, int j)
{
    return i < n && j < n ? distances[i * n + j] : FAR;
}

extern "C" __global__ void close_pivot(int *distances, int n, int round)
{
    __shared__ int tile[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int i = round * T + y, j = round * T + x;
    tile[y][x] = read(distances, n, i, j);
    __syncthreads();
    for (int k = 0; k < T; k++) {
        int through = tile[y][k] + tile[k][x];
        __syncthreads();
        if (through < tile[y][x])
            tile[y][x] = through;
        __syncthreads();
    }
    if (i < n && j < n)
        distances[i * n + j] = tile[y][x];
}

extern "C" __global__ void close_cross(int *distances, int n, int round)
{
    __shared__ int pivot[T][T];
    __shared__ int tile[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int other = blockIdx.x < round ? blockIdx.x : blockIdx.x + 1;
    bool is_row = blockIdx.y == 0;
    int i = (is_row ? round : other) * T + y, j = (is_row ? other : round) * T + x;
    pivot[y][x] = read(distances, n, round * T + y, round * T + x);
    tile[y][x] = read(distances, n, i, j);
    __syncthreads();
    for (int k = 0; k < T; k++) {
        int through = is_row ? pivot[y][k] + tile[k][x] : tile[y][k] + pivot[k][x];
        __syncthreads();
        if (through < tile[y][x])
            tile[y][x] = through;
        __syncthreads();
    }
    if (i < n && j < n)
        distances[i * n + j] = tile[y][x];
}

extern "C" __global__ void relax_rest(int *distances, int n, int round)
{
    __shared__ int left[T][T];
    __shared__ int above[T][T];
    if (blockIdx.x == round || blockIdx.y == round)
        return;
    int x = threadIdx.x, y = threadIdx.y;
    int i = blockIdx.y * T + y, j = blockIdx.x * T + x;
    left[y][x] = read(distances, n, i, round * T + x);
    above[y][x] = read(distances, n, round * T + y, j);
    __syncthreads();
    int best = read(distances, n, i, j);
    for (int k = 0; k < T; k++)
        best = min(best, left[y][k] + above[k][x]);
    if (i < n && j < n)
        distances[i * n + j] = best;
}
