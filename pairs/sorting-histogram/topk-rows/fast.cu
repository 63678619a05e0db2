#define WARPS 4
#define UNROLL 8
#define FULL 0xffffffffu
#define LEAST __int_as_float(0xff800000)

__device__ __forceinline__ float exchange(float value, int mask, bool greater)
{
    const float other = __shfl_xor_sync(FULL, value, mask);
    return greater ? fmaxf(value, other) : fminf(value, other);
}

__device__ __forceinline__ float sort_ascending(float value, int lane)
{
#pragma unroll
    for (int size = 2; size <= 32; size *= 2) {
        value = exchange(value, size - 1, (lane & (size / 2)) != 0);
#pragma unroll
        for (int distance = size / 4; distance > 0; distance /= 2)
            value = exchange(value, distance, (lane & distance) != 0);
    }
    return value;
}

__device__ __forceinline__ float merge_descending(float kept, float ascending, int lane)
{
    kept = fmaxf(kept, ascending);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        kept = exchange(kept, distance, (lane & distance) == 0);
    return kept;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    top_values(const float *__restrict__ values, float *__restrict__ best, int cols)
{
    __shared__ float queues[WARPS][64];
    __shared__ float parts[WARPS][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned below = (1u << lane) - 1;
    const float *row = values + static_cast<size_t>(blockIdx.x) * cols;
    float *queue = queues[warp];
    float kept = LEAST, least = LEAST;
    int waiting = 0;
    float load[UNROLL];
    for (int base = warp * 32; base < cols; base += UNROLL * WARPS * 32) {
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const int at = base + u * WARPS * 32 + lane;
            load[u] = at < cols ? __ldcs(row + at) : LEAST;
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const unsigned passing = __ballot_sync(FULL, load[u] > least);
            if (passing == 0)
                continue;
            if (load[u] > least)
                queue[waiting + __popc(passing & below)] = load[u];
            waiting += __popc(passing);
            __syncwarp();
            if (waiting >= 32) {
                kept = merge_descending(kept, sort_ascending(queue[lane], lane), lane);
                least = __shfl_sync(FULL, kept, 31);
                waiting -= 32;
                const float rest = queue[32 + lane];
                __syncwarp();
                if (lane < waiting)
                    queue[lane] = rest;
                __syncwarp();
            }
        }
    }
    kept = merge_descending(kept, sort_ascending(lane < waiting ? queue[lane] : LEAST, lane), lane);
    parts[warp][lane] = kept;
    for (int width = WARPS / 2; width > 0; width /= 2) {
        __syncthreads();
        if (warp < width) {
            kept = merge_descending(kept, parts[warp + width][31 - lane], lane);
            parts[warp][lane] = kept;
        }
    }
    if (warp == 0)
        best[blockIdx.x * 32 + lane] = kept;
}
