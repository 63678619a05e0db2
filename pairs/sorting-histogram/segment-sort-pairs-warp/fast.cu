#define WARPS 4
#define LONGEST 512
#define FULL 0xffffffffu

typedef unsigned long long word;

// A key above its place in the segment: equal keys keep their order.
__device__ __forceinline__ word exchanged(word own, int distance, bool smaller)
{
    const word other = __shfl_xor_sync(FULL, own, distance);
    return (own < other) == smaller ? own : other;
}

__device__ __forceinline__ void sort_lanes(word &item, int lane)
{
#pragma unroll
    for (int size = 2; size <= 32; size *= 2)
#pragma unroll
        for (int distance = size / 2; distance > 0; distance /= 2)
            item = exchanged(item, distance, ((lane & distance) == 0) == ((lane & size) == 0 || size == 32));
}

__device__ __forceinline__ void sort_shared(word *items, int count, int lane)
{
    for (int size = 2; size <= count; size *= 2) {
        for (int distance = size / 2; distance > 0; distance /= 2) {
            for (int k = lane; k < count / 2; k += 32) {
                const int low = 2 * k - k % distance, high = low + distance;
                const word a = items[low], b = items[high];
                if ((a > b) == ((low & size) == 0)) {
                    items[low] = b;
                    items[high] = a;
                }
            }
            __syncwarp();
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    sort_segments(const int *__restrict__ offsets, const unsigned *__restrict__ keys, const int *__restrict__ values,
                  unsigned *__restrict__ sorted_keys, int *__restrict__ sorted_values, int segments)
{
    __shared__ word all[WARPS][LONGEST];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int segment = blockIdx.x * WARPS + warp;
    if (segment >= segments)
        return;
    const int begin = offsets[segment], length = offsets[segment + 1] - begin;
    if (length <= 32) {
        word item = lane < length ? static_cast<word>(keys[begin + lane]) << 32 | lane : ~0ull;
        sort_lanes(item, lane);
        if (lane < length) {
            sorted_keys[begin + lane] = static_cast<unsigned>(item >> 32);
            sorted_values[begin + lane] = values[begin + static_cast<int>(item & 0xffffffffu)];
        }
        return;
    }
    word *items = all[warp];
    const int count = 2 << (31 - __clz(length - 1));
    for (int k = lane; k < count; k += 32)
        items[k] = k < length ? static_cast<word>(keys[begin + k]) << 32 | k : ~0ull;
    __syncwarp();
    sort_shared(items, count, lane);
    for (int k = lane; k < length; k += 32) {
        sorted_keys[begin + k] = static_cast<unsigned>(items[k] >> 32);
        sorted_values[begin + k] = values[begin + static_cast<int>(items[k] & 0xffffffffu)];
    }
}
