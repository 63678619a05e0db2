// A warp a row: its bound rises sooner than those of warps that share a row, so that few values are queued. A batch
// without a value above the bound costs one vote.
#define ROWS 2
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

extern "C" __global__ void __launch_bounds__(32 * ROWS, 32)
    top_values(const float *__restrict__ values, float *__restrict__ best, int rows, int cols)
{
    __shared__ float queues[ROWS][64];
    const int lane = threadIdx.x % 32, at_row = blockIdx.x * ROWS + threadIdx.x / 32;
    if (at_row >= rows)
        return;
    const unsigned below = (1u << lane) - 1;
    const float *row = values + static_cast<size_t>(at_row) * cols;
    float *queue = queues[threadIdx.x / 32];
    float kept = LEAST, least = LEAST;
    int waiting = 0;
    float load[UNROLL];
    for (int base = 0; base < cols; base += UNROLL * 32) {
        if (cols % 4 == 0 && base + UNROLL * 32 <= cols) {
#pragma unroll
            for (int q = 0; q < UNROLL / 4; q++) {
                const float4 four = __ldcs(reinterpret_cast<const float4 *>(row + base) + q * 32 + lane);
                load[4 * q] = four.x, load[4 * q + 1] = four.y, load[4 * q + 2] = four.z, load[4 * q + 3] = four.w;
            }
        } else {
#pragma unroll
            for (int u = 0; u < UNROLL; u++) {
                const int at = base + u * 32 + lane;
                load[u] = at < cols ? __ldcs(row + at) : LEAST;
            }
        }
        float most = load[0];
#pragma unroll
        for (int u = 1; u < UNROLL; u++)
            most = fmaxf(most, load[u]);
        if (!__any_sync(FULL, most > least))
            continue;
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
                const float rest = lane < waiting ? queue[32 + lane] : LEAST;
                __syncwarp();
                if (lane < waiting)
                    queue[lane] = rest;
                __syncwarp();
            }
        }
    }
    kept = merge_descending(kept, sort_ascending(lane < waiting ? queue[lane] : LEAST, lane), lane);
    best[at_row * 32 + lane] = kept;
}
