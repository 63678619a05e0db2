#define PROBES 4
#define EMPTY 0xffffffffffffffffull

typedef unsigned long long entry;

__device__ __forceinline__ unsigned bucket_of(int key, int bits)
{
    return static_cast<unsigned>(key) * 2654435761u >> (32 - bits);
}

extern "C" __global__ void __launch_bounds__(256)
    build(const int *__restrict__ keys, const int *__restrict__ payload, entry *__restrict__ table, int n, int bits)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const int key = __ldcs(keys + i);
    const entry row = static_cast<entry>(static_cast<unsigned>(key)) << 32 | static_cast<unsigned>(__ldcs(payload + i));
    const unsigned last = (4u << bits) - 1;
    unsigned slot = 4 * bucket_of(key, bits);
    while (atomicCAS(table + slot, EMPTY, row) != EMPTY)
        slot = (slot + 1) & last;
}

__device__ __forceinline__ bool look(entry row, int key, int &result)
{
    if (static_cast<int>(row >> 32) == key)
        result = static_cast<int>(row);
    return row == EMPTY || static_cast<int>(row >> 32) == key;
}

extern "C" __global__ void __launch_bounds__(256)
    probe(const int *__restrict__ probes, const entry *__restrict__ table, int *__restrict__ joined, int m, int bits)
{
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * PROBES;
    if (first >= m)
        return;
    int key[PROBES], result[PROBES];
    if (first + PROBES <= m) {
        const int4 four = __ldcs(reinterpret_cast<const int4 *>(probes + first));
        key[0] = four.x, key[1] = four.y, key[2] = four.z, key[3] = four.w;
    } else {
#pragma unroll
        for (int p = 0; p < PROBES; p++)
            key[p] = first + p < m ? probes[first + p] : 0;
    }
    ulonglong2 low[PROBES], high[PROBES];
#pragma unroll
    for (int p = 0; p < PROBES; p++) {
        const ulonglong2 *bucket = reinterpret_cast<const ulonglong2 *>(table) + 2 * bucket_of(key[p], bits);
        low[p] = __ldg(bucket);
        high[p] = __ldg(bucket + 1);
    }
#pragma unroll
    for (int p = 0; p < PROBES; p++) {
        result[p] = -1;
        if (look(low[p].x, key[p], result[p]) || look(low[p].y, key[p], result[p]) ||
            look(high[p].x, key[p], result[p]) || look(high[p].y, key[p], result[p]))
            continue;
        const unsigned last = (4u << bits) - 1;
        unsigned slot = (4 * bucket_of(key[p], bits) + 4) & last;
        while (!look(table[slot], key[p], result[p]))
            slot = (slot + 1) & last;
    }
    if (first + PROBES <= m) {
        __stcs(reinterpret_cast<int4 *>(joined + first), make_int4(result[0], result[1], result[2], result[3]));
    } else {
#pragma unroll
        for (int p = 0; p < PROBES; p++)
            if (first + p < m)
                joined[first + p] = result[p];
    }
}
