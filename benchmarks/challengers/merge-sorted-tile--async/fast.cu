// Tiles come by asynchronous copies, which hold no registers, so that as many threads as fit are at work.
#define THREADS 256
#define ITEMS 15
#define TILE (THREADS * ITEMS)

template <typename Left, typename Right>
__device__ __forceinline__ int split(const Left *a, const Right *b, int n, int m, int diagonal)
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

extern "C" __global__ void partition(const int *__restrict__ a, const int *__restrict__ b, int *__restrict__ splits,
                                     int n, int m, int count)
{
    const int tile = blockIdx.x * blockDim.x + threadIdx.x;
    if (tile < count)
        splits[tile] = split(a, b, n, m, min(tile * TILE, n + m));
}

extern "C" __global__ void __launch_bounds__(THREADS, 6)
    merge(const int *__restrict__ a, const int *__restrict__ b, const int *__restrict__ splits,
          int *__restrict__ merged, int n, int m)
{
    __shared__ int keys[TILE];
    const int start = blockIdx.x * TILE;
    const int total = min(TILE, n + m - start);
    const int a0 = splits[blockIdx.x];
    const int from_a = splits[blockIdx.x + 1] - a0;
    const int from_b = total - from_a;
    const int *b_tile = b + (start - a0) - from_a;
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        const int at = k * THREADS + threadIdx.x;
        if (at < total)
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                             static_cast<unsigned>(__cvta_generic_to_shared(keys + at))),
                         "l"(at < from_a ? a + a0 + at : b_tile + at)
                         : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();

    const int diagonal = min(static_cast<int>(threadIdx.x) * ITEMS, total);
    int i = split(keys, keys + from_a, from_a, from_b, diagonal);
    int j = from_a + diagonal - i;
    int left = i < from_a ? keys[i] : 0;
    int right = j < total ? keys[j] : 0;
    int item[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        const bool take = i < from_a && (j >= total || left <= right);
        item[k] = take ? left : right;
        if (take) {
            i++;
            if (i < from_a)
                left = keys[i];
        } else {
            j++;
            if (j < total)
                right = keys[j];
        }
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++)
        if (static_cast<int>(threadIdx.x) * ITEMS + k < total)
            keys[threadIdx.x * ITEMS + k] = item[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; k++) {
        const int at = k * THREADS + threadIdx.x;
        if (at < total)
            __stcs(merged + start + at, keys[at]);
    }
}
