#define K 8
#define HELD 4
#define SPAN (32 * HELD)
#define WARPS 4
#define ALL 0xffffffffu

__device__ __forceinline__ unsigned int ordered(float value)
{
    const unsigned int bits = __float_as_uint(value);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float restored(unsigned int key)
{
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    topk(const float *__restrict__ in, float *__restrict__ values, int *__restrict__ places, int rows, int cols)
{
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= rows)
        return;
    const float *from = in + row * cols;
    unsigned int key[HELD + 1];
    int place[HELD + 1];
    unsigned int best = 0;
    int best_place = 0;

    for (int base = 0; base < cols; base += SPAN) {
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            place[u] = base + u * 32 + lane;
            key[u] = place[u] < cols ? ordered(__ldcs(from + place[u]) + 0.0f) : 0;
        }
        key[HELD] = base > 0 && lane < K ? best : 0;
        place[HELD] = best_place;
#pragma unroll
        for (int round = 0; round < K; round++) {
            unsigned int mine = key[HELD];
            int at = HELD;
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (key[u] > mine) {
                    mine = key[u];
                    at = u;
                }
            const unsigned int largest = __reduce_max_sync(ALL, mine);
            int where = place[HELD];
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (at == u)
                    where = place[u];
            const unsigned int first = __reduce_min_sync(ALL, mine == largest ? (unsigned int)where : 0xffffffffu);
            if (lane == round) {
                best = largest;
                best_place = (int)first;
            }
            if (mine == largest && where == (int)first)
#pragma unroll
                for (int u = 0; u <= HELD; u++)
                    if (at == u)
                        key[u] = 0;
        }
    }
    if (lane < K) {
        values[row * K + lane] = restored(best);
        places[row * K + lane] = best_place;
    }
}
