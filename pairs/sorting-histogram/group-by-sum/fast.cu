#define THREADS 512
#define ROWS 65536

extern "C" __global__ void __launch_bounds__(THREADS)
    group_by(const int *__restrict__ keys, const short *__restrict__ values, unsigned long long *__restrict__ sums,
             int *__restrict__ counts, int n, int groups)
{
    extern __shared__ int table[];
    int *own_sums = table, *own_counts = table + groups;
    for (int g = threadIdx.x; g < 2 * groups; g += THREADS)
        table[g] = 0;
    __syncthreads();
    const long long base = static_cast<long long>(blockIdx.x) * ROWS;
    const int rows = static_cast<int>(min(static_cast<long long>(ROWS), n - base));
    const int4 *key4 = reinterpret_cast<const int4 *>(keys + base);
    const short4 *value4 = reinterpret_cast<const short4 *>(values + base);
#pragma unroll 4
    for (int q = threadIdx.x; q < rows / 4; q += THREADS) {
        const int4 key = __ldcs(key4 + q);
        const short4 value = __ldcs(value4 + q);
        atomicAdd(own_sums + key.x, static_cast<int>(value.x));
        atomicAdd(own_counts + key.x, 1);
        atomicAdd(own_sums + key.y, static_cast<int>(value.y));
        atomicAdd(own_counts + key.y, 1);
        atomicAdd(own_sums + key.z, static_cast<int>(value.z));
        atomicAdd(own_counts + key.z, 1);
        atomicAdd(own_sums + key.w, static_cast<int>(value.w));
        atomicAdd(own_counts + key.w, 1);
    }
    for (int r = rows / 4 * 4 + threadIdx.x; r < rows; r += THREADS) {
        atomicAdd(own_sums + keys[base + r], static_cast<int>(values[base + r]));
        atomicAdd(own_counts + keys[base + r], 1);
    }
    __syncthreads();
    for (int g = threadIdx.x; g < groups; g += THREADS) {
        if (own_counts[g] != 0) {
            atomicAdd(sums + g, static_cast<unsigned long long>(static_cast<long long>(own_sums[g])));
            atomicAdd(counts + g, own_counts[g]);
        }
    }
}
