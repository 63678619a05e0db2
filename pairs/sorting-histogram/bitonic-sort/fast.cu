#define THREADS 1024
#define TILE 4096
#define FAR 0x7fffffff

__device__ __forceinline__ void order(int *keys, int i, int j)
{
    const int a = keys[i], b = keys[j];
    keys[i] = min(a, b);
    keys[j] = max(a, b);
}

__device__ __forceinline__ void load(int *tile, const int *keys, int n)
{
    const int first = blockIdx.x * TILE;
#pragma unroll
    for (int i = threadIdx.x; i < TILE; i += THREADS)
        tile[i] = first + i < n ? keys[first + i] : FAR;
    __syncthreads();
}

__device__ __forceinline__ void store(const int *tile, int *keys, int n)
{
    const int first = blockIdx.x * TILE;
#pragma unroll
    for (int i = threadIdx.x; i < TILE; i += THREADS)
        if (first + i < n)
            keys[first + i] = tile[i];
}

__device__ __forceinline__ void merge_down(int *tile, int distance)
{
    for (; distance > 0; distance /= 2) {
#pragma unroll
        for (int t = threadIdx.x; t < TILE / 2; t += THREADS) {
            const int i = 2 * t - (t & (distance - 1));
            order(tile, i, i + distance);
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) sort_tiles(int *__restrict__ keys, int n)
{
    __shared__ int tile[TILE];
    load(tile, keys, n);
    for (int span = 1; span < TILE; span *= 2) {
#pragma unroll
        for (int t = threadIdx.x; t < TILE / 2; t += THREADS) {
            const int start = (t & ~(span - 1)) * 2, place = t & (span - 1);
            order(tile, start + place, start + 2 * span - 1 - place);
        }
        __syncthreads();
        merge_down(tile, span / 2);
    }
    store(tile, keys, n);
}

extern "C" __global__ void __launch_bounds__(THREADS) merge_tiles(int *__restrict__ keys, int n)
{
    __shared__ int tile[TILE];
    load(tile, keys, n);
    merge_down(tile, TILE / 2);
    store(tile, keys, n);
}

__device__ __forceinline__ void order(int &a, int &b)
{
    const int least = min(a, b);
    b = max(a, b);
    a = least;
}

__device__ __forceinline__ int read(const int *keys, int at, int n)
{
    return at < n ? keys[at] : FAR;
}

template <int STEPS>
__global__ void __launch_bounds__(256) mirror(int *__restrict__ keys, int n, int span)
{
    constexpr int SIDE = 1 << (STEPS - 1);
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    const int apart = span / SIDE;
    const int place = t & (apart - 1);
    const int first = (t - place) * (2 * SIDE) + place;
    const int last = (t - place) * (2 * SIDE) + 2 * span - 1 - place;
    if (first >= n)
        return;
    int low[SIDE], high[SIDE];
#pragma unroll
    for (int k = 0; k < SIDE; k++) {
        low[k] = read(keys, first + k * apart, n);
        high[k] = read(keys, last - k * apart, n);
    }
#pragma unroll
    for (int k = 0; k < SIDE; k++)
        order(low[k], high[k]);
#pragma unroll
    for (int bit = SIDE / 2; bit > 0; bit /= 2) {
#pragma unroll
        for (int k = 0; k < SIDE; k++) {
            if ((k & bit) == 0) {
                order(low[k], low[k | bit]);
                order(high[k | bit], high[k]);
            }
        }
    }
#pragma unroll
    for (int k = 0; k < SIDE; k++) {
        if (first + k * apart < n)
            keys[first + k * apart] = low[k];
        if (last - k * apart < n)
            keys[last - k * apart] = high[k];
    }
}

template <int STEPS>
__global__ void __launch_bounds__(256) compare(int *__restrict__ keys, int n, int distance)
{
    constexpr int EACH = 1 << STEPS;
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    const int place = t & (distance - 1);
    const int first = (t - place) * EACH + place;
    if (first >= n)
        return;
    int key[EACH];
#pragma unroll
    for (int k = 0; k < EACH; k++)
        key[k] = read(keys, first + k * distance, n);
#pragma unroll
    for (int bit = EACH / 2; bit > 0; bit /= 2)
#pragma unroll
        for (int k = 0; k < EACH; k++)
            if ((k & bit) == 0)
                order(key[k], key[k | bit]);
#pragma unroll
    for (int k = 0; k < EACH; k++)
        if (first + k * distance < n)
            keys[first + k * distance] = key[k];
}
