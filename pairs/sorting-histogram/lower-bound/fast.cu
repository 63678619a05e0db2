#define THREADS 512
#define LEAF 16
#define ROOT 4096
#define KEYS 4

extern "C" __global__ void __launch_bounds__(256)
    sample(const int *__restrict__ sorted, int *__restrict__ firsts, int n)
{
    const int leaf = blockIdx.x * blockDim.x + threadIdx.x;
    if (leaf < (n + LEAF - 1) / LEAF)
        firsts[leaf] = sorted[leaf * LEAF];
}

// The number of samples (every `step`th of `count`) that are below each key, by a search without branches.
template <class Table>
__device__ __forceinline__ void descend(const Table *__restrict__ table, int count, const int (&key)[KEYS],
                                        int (&low)[KEYS], const int (&base)[KEYS], const int (&extent)[KEYS])
{
    int step = 1;
    while (step <= count)
        step *= 2;
#pragma unroll
    for (int k = 0; k < KEYS; k++)
        low[k] = 0;
    for (step /= 2; step > 0; step /= 2) {
#pragma unroll
        for (int k = 0; k < KEYS; k++) {
            const int next = low[k] + step;
            if (next <= extent[k] && table[base[k] + next - 1] < key[k])
                low[k] = next;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    lower_bound(const int *__restrict__ sorted, const int *__restrict__ firsts, const int *__restrict__ wanted,
                int *__restrict__ places, int n, int m)
{
    __shared__ int root[ROOT];
    const int leaves = (n + LEAF - 1) / LEAF;
    const int stride = (leaves + ROOT - 1) / ROOT;
    const int roots = (leaves + stride - 1) / stride;
    for (int r = threadIdx.x; r < roots; r += THREADS)
        root[r] = firsts[r * stride];
    __syncthreads();
    for (int first = (blockIdx.x * THREADS + threadIdx.x) * KEYS; first < m; first += gridDim.x * THREADS * KEYS) {
        int key[KEYS], low[KEYS], base[KEYS], extent[KEYS];
        if (first + KEYS <= m) {
            const int4 four = __ldcs(reinterpret_cast<const int4 *>(wanted + first));
            key[0] = four.x, key[1] = four.y, key[2] = four.z, key[3] = four.w;
        } else {
#pragma unroll
            for (int k = 0; k < KEYS; k++)
                key[k] = first + k < m ? wanted[first + k] : 0;
        }
#pragma unroll
        for (int k = 0; k < KEYS; k++) {
            base[k] = 0;
            extent[k] = roots;
        }
        descend(root, roots, key, low, base, extent);
#pragma unroll
        for (int k = 0; k < KEYS; k++) {
            base[k] = max(low[k] - 1, 0) * stride;
            extent[k] = min(stride, leaves - base[k]);
        }
        descend(firsts, stride, key, low, base, extent);
#pragma unroll
        for (int k = 0; k < KEYS; k++) {
            const int start = (base[k] + max(low[k] - 1, 0)) * LEAF;
            int below = 0;
            if (start + LEAF <= n) {
                const int4 *leaf = reinterpret_cast<const int4 *>(sorted + start);
#pragma unroll
                for (int q = 0; q < LEAF / 4; q++) {
                    const int4 four = __ldg(leaf + q);
                    below += (four.x < key[k]) + (four.y < key[k]) + (four.z < key[k]) + (four.w < key[k]);
                }
            } else {
                for (int e = start; e < n; e++)
                    below += sorted[e] < key[k];
            }
            low[k] = start + below;
        }
        if (first + KEYS <= m) {
            __stcs(reinterpret_cast<int4 *>(places + first), make_int4(low[0], low[1], low[2], low[3]));
        } else {
#pragma unroll
            for (int k = 0; k < KEYS; k++)
                if (first + k < m)
                    places[first + k] = low[k];
        }
    }
}
