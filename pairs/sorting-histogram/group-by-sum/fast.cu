// One atomic a row: a word has the number of a group's rows in its upper eight bits and the sum of their values below.
// If the numbers of all groups do not add up to the block's rows, a group had more than 255, and the block starts again
// with words for sums and words for numbers.
#define THREADS 512
#define SAFE 65536
#define ONE (1u << 24)
#define FULL 0xffffffffu

template <bool PACKED> __device__ __forceinline__ void add_row(unsigned *table, int groups, int key, short value)
{
    if (PACKED) {
        atomicAdd(table + key, ONE + value);
    } else {
        atomicAdd(table + key, static_cast<unsigned>(value));
        atomicAdd(table + groups + key, 1u);
    }
}

template <bool PACKED, int UNROLL>
__device__ __forceinline__ void add_rows(unsigned *table, int groups, const int *__restrict__ keys,
                                         const short *__restrict__ values, int rows)
{
    const int4 *key4 = reinterpret_cast<const int4 *>(keys) + threadIdx.x;
    const short4 *value4 = reinterpret_cast<const short4 *>(values) + threadIdx.x;
    int rounds = (rows / 4 - static_cast<int>(threadIdx.x) + THREADS - 1) / THREADS;
#pragma unroll 1
    for (; rounds >= UNROLL; rounds -= UNROLL) {
        int4 key[UNROLL];
        short4 value[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            key[u] = __ldcs(key4 + u * THREADS);
            value[u] = __ldcs(value4 + u * THREADS);
        }
        key4 += UNROLL * THREADS;
        value4 += UNROLL * THREADS;
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            add_row<PACKED>(table, groups, key[u].x, value[u].x);
            add_row<PACKED>(table, groups, key[u].y, value[u].y);
            add_row<PACKED>(table, groups, key[u].z, value[u].z);
            add_row<PACKED>(table, groups, key[u].w, value[u].w);
        }
    }
#pragma unroll 1
    for (; rounds > 0; rounds--) {
        const int4 key = __ldcs(key4);
        const short4 value = __ldcs(value4);
        key4 += THREADS;
        value4 += THREADS;
        add_row<PACKED>(table, groups, key.x, value.x);
        add_row<PACKED>(table, groups, key.y, value.y);
        add_row<PACKED>(table, groups, key.z, value.z);
        add_row<PACKED>(table, groups, key.w, value.w);
    }
    for (int r = rows / 4 * 4 + threadIdx.x; r < rows; r += THREADS)
        add_row<PACKED>(table, groups, keys[r], values[r]);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    group_by(const int *__restrict__ keys, const short *__restrict__ values, unsigned long long *__restrict__ sums,
             int *__restrict__ counts, int n, int groups, int share)
{
    extern __shared__ unsigned table[];
    __shared__ int parts[THREADS / 32];
    const long long from = static_cast<long long>(blockIdx.x) * share;
    const int rows = static_cast<int>(min(static_cast<long long>(share), n - from));
    if (rows <= 0)
        return;
    // Nor is it worth trying with few groups.
    if (rows / groups < 200) {
        for (int g = threadIdx.x; g < groups; g += THREADS)
            table[g] = 0;
        __syncthreads();
        add_rows<true, 4>(table, groups, keys + from, values + from, rows);
        __syncthreads();
        int counted = 0;
        for (int g = threadIdx.x; g < groups; g += THREADS)
            counted += (table[g] + ONE / 2) >> 24;
        counted = __reduce_add_sync(FULL, counted);
        if (threadIdx.x % 32 == 0)
            parts[threadIdx.x / 32] = counted;
        __syncthreads();
        counted = 0;
#pragma unroll
        for (int w = 0; w < THREADS / 32; w++)
            counted += parts[w];
        if (counted == rows) {
            for (int g = threadIdx.x; g < groups; g += THREADS) {
                const unsigned word = table[g], count = (word + ONE / 2) >> 24;
                if (count != 0) {
                    const int sum = static_cast<int>(word - count * ONE);
                    atomicAdd(sums + g, static_cast<unsigned long long>(static_cast<long long>(sum)));
                    atomicAdd(counts + g, static_cast<int>(count));
                }
            }
            return;
        }
        __syncthreads();
    }
    for (int done = 0; done < rows; done += SAFE) {
        for (int g = threadIdx.x; g < 2 * groups; g += THREADS)
            table[g] = 0;
        __syncthreads();
        add_rows<false, 2>(table, groups, keys + from + done, values + from + done, min(SAFE, rows - done));
        __syncthreads();
        for (int g = threadIdx.x; g < groups; g += THREADS)
            if (table[groups + g] != 0) {
                const int sum = static_cast<int>(table[g]);
                atomicAdd(sums + g, static_cast<unsigned long long>(static_cast<long long>(sum)));
                atomicAdd(counts + g, static_cast<int>(table[groups + g]));
            }
        __syncthreads();
    }
}
