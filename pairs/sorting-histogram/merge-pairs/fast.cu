// The tile's values travel to shared memory while its keys are searched and merged, so that nothing waits for them.
#define THREADS 256
#define ITEMS 7
#define TILE (THREADS * ITEMS)

// How many of the first `diagonal` items of the merge come from `a`; of equal keys those of `a` come first.
__device__ __forceinline__ int split(const int *a, const int *b, int n, int m, int diagonal)
{
    int low = max(0, diagonal - m), high = min(diagonal, n);
    while (low < high) {
        const int middle = (low + high) / 2;
        if (a[middle] <= b[diagonal - 1 - middle])
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

extern "C" __global__ void __launch_bounds__(128)
    partition(const int *__restrict__ a, const int *__restrict__ b, int *__restrict__ starts, int n, int m, int tiles)
{
    const int tile = blockIdx.x * 128 + threadIdx.x;
    if (tile <= tiles)
        starts[tile] = split(a, b, n, m, min(tile * TILE, n + m));
}

// Four bytes to shared memory, waited for later.
__device__ __forceinline__ void copy_ahead(int *to, const int *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from)
                 : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, 8)
    merge(const int *__restrict__ a_keys, const int *__restrict__ a_values, const int *__restrict__ b_keys,
          const int *__restrict__ b_values, const int *__restrict__ starts, int *__restrict__ merged_keys,
          int *__restrict__ merged_values, int n, int m)
{
    __shared__ int keys[TILE], values[TILE];
    __shared__ unsigned short places[TILE];
    const int first = blockIdx.x * TILE, count = min(TILE, n + m - first);
    const int a_first = starts[blockIdx.x], a_count = starts[blockIdx.x + 1] - a_first;
    const int b_first = first - a_first, b_count = count - a_count;
#pragma unroll
    for (int u = 0; u < ITEMS; u++) {
        const int k = threadIdx.x + u * THREADS;
        if (k < count)
            keys[k] = __ldcs(k < a_count ? a_keys + a_first + k : b_keys + b_first + k - a_count);
    }
#pragma unroll
    for (int u = 0; u < ITEMS; u++) {
        const int k = threadIdx.x + u * THREADS;
        if (k < count)
            copy_ahead(values + k, k < a_count ? a_values + a_first + k : b_values + b_first + k - a_count);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    __syncthreads();
    const int own = min(static_cast<int>(threadIdx.x) * ITEMS, count);
    int i = split(keys, keys + a_count, a_count, b_count, own);
    int j = a_count + own - i;
    int key[ITEMS], place[ITEMS];
#pragma unroll
    for (int u = 0; u < ITEMS; u++) {
        const bool from_a = j >= count || (i < a_count && keys[i] <= keys[j]);
        place[u] = from_a ? i++ : j++;
        key[u] = own + u < count ? keys[place[u]] : 0;
    }
    __syncthreads();
#pragma unroll
    for (int u = 0; u < ITEMS; u++) {
        if (own + u < count) {
            keys[own + u] = key[u];
            places[own + u] = static_cast<unsigned short>(place[u]);
        }
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
#pragma unroll
    for (int u = 0; u < ITEMS; u++) {
        const int k = threadIdx.x + u * THREADS;
        if (k < count) {
            __stcs(merged_keys + first + k, keys[k]);
            __stcs(merged_values + first + k, values[places[k]]);
        }
    }
}
