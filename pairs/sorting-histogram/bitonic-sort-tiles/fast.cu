#define THREADS 1024
#define TILE 2048

__device__ __forceinline__ void order(int *keys, int i, int j)
{
    const int a = keys[i], b = keys[j];
    keys[i] = min(a, b);
    keys[j] = max(a, b);
}

__device__ __forceinline__ void load(int *tile, const int *keys, int n)
{
    const int first = blockIdx.x * TILE + threadIdx.x;
    tile[threadIdx.x] = first < n ? keys[first] : 0x7fffffff;
    tile[threadIdx.x + THREADS] = first + THREADS < n ? keys[first + THREADS] : 0x7fffffff;
    __syncthreads();
}

__device__ __forceinline__ void store(const int *tile, int *keys, int n)
{
    const int first = blockIdx.x * TILE + threadIdx.x;
    if (first < n)
        keys[first] = tile[threadIdx.x];
    if (first + THREADS < n)
        keys[first + THREADS] = tile[threadIdx.x + THREADS];
}

__device__ __forceinline__ void merge_down(int *tile, int distance)
{
    const int t = threadIdx.x;
    for (; distance > 0; distance /= 2) {
        const int i = 2 * t - (t & (distance - 1));
        order(tile, i, i + distance);
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) sort_tiles(int *__restrict__ keys, int n)
{
    __shared__ int tile[TILE];
    const int t = threadIdx.x;
    load(tile, keys, n);
    for (int span = 1; span < TILE; span *= 2) {
        const int start = (t & ~(span - 1)) * 2, place = t & (span - 1);
        order(tile, start + place, start + 2 * span - 1 - place);
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

__device__ __forceinline__ void order_far(int *keys, int i, int j, int n)
{
    if (j < n) {
        const int a = keys[i], b = keys[j];
        if (a > b) {
            keys[i] = b;
            keys[j] = a;
        }
    }
}

extern "C" __global__ void mirror(int *__restrict__ keys, int n, int span)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    const int start = (t & ~(span - 1)) * 2, place = t & (span - 1);
    order_far(keys, start + place, start + 2 * span - 1 - place, n);
}

extern "C" __global__ void compare(int *__restrict__ keys, int n, int distance)
{
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    const int i = 2 * t - (t & (distance - 1));
    order_far(keys, i, i + distance, n);
}
