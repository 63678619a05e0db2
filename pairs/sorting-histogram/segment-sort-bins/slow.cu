#define WARPS 4
#define FULL 0xffffffffu

__device__ __forceinline__ void order(int &a, int &b)
{
    const int low = min(a, b);
    b = max(a, b);
    a = low;
}

template <int DISTANCE>
__device__ __forceinline__ void merge_registers(int (&key)[32])
{
#pragma unroll
    for (int i = 0; i < 32; i++)
        if ((i & DISTANCE) == 0)
            order(key[i], key[i | DISTANCE]);
    if constexpr (DISTANCE > 1)
        merge_registers<DISTANCE / 2>(key);
}

template <int SIZE>
__device__ __forceinline__ void sort_registers(int (&key)[32])
{
#pragma unroll
    for (int i = 0; i < 32; i++)
        if ((i & (SIZE / 2)) == 0)
            order(key[i], key[i ^ (SIZE - 1)]);
    if constexpr (SIZE > 2)
        merge_registers<SIZE / 4>(key);
    if constexpr (SIZE < 32)
        sort_registers<SIZE * 2>(key);
}

template <int LANES>
__device__ __forceinline__ void merge_lanes(int (&key)[32], int lane)
{
    const bool lower = (lane & (LANES / 2)) == 0;
#pragma unroll
    for (int i = 0; i < 16; i++) {
        const int a = __shfl_xor_sync(FULL, key[31 - i], LANES - 1);
        const int b = __shfl_xor_sync(FULL, key[i], LANES - 1);
        key[i] = lower ? min(key[i], a) : max(key[i], a);
        key[31 - i] = lower ? min(key[31 - i], b) : max(key[31 - i], b);
    }
#pragma unroll
    for (int distance = LANES / 4; distance > 0; distance /= 2) {
        const bool first = (lane & distance) == 0;
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const int other = __shfl_xor_sync(FULL, key[i], distance);
            key[i] = first ? min(key[i], other) : max(key[i], other);
        }
    }
    merge_registers<16>(key);
    if constexpr (LANES < 32)
        merge_lanes<LANES * 2>(key, lane);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    sort_rows(const int *__restrict__ keys, int *__restrict__ ordered, int rows, int width)
{
    __shared__ int turned[WARPS][32 * 33];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int row = blockIdx.x * WARPS + warp;
    if (row >= rows)
        return;
    const int *from = keys + static_cast<size_t>(row) * width;
    int *to = ordered + static_cast<size_t>(row) * width;
    int key[32];
#pragma unroll
    for (int i = 0; i < 32; i++)
        key[i] = i * 32 + lane < width ? __ldcs(from + i * 32 + lane) : 0x7fffffff;
    sort_registers<2>(key);
    merge_lanes<2>(key, lane);
#pragma unroll
    for (int i = 0; i < 32; i++)
        turned[warp][lane * 33 + i] = key[i];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 32; i++)
        if (i * 32 + lane < width)
            __stcs(to + i * 32 + lane, turned[warp][i * 33 + lane]);
}
