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

// The lane's keys, largest first; equal ones in the order of their places.
template <int COUNT>
__device__ __forceinline__ void sort_own(unsigned int (&key)[COUNT], int (&place)[COUNT])
{
#pragma unroll
    for (int last = COUNT - 1; last > 0; last--)
#pragma unroll
        for (int u = 0; u < last; u++) {
            const bool swap = key[u + 1] > key[u];
            const unsigned int high = swap ? key[u + 1] : key[u];
            const int high_place = swap ? place[u + 1] : place[u];
            key[u + 1] = swap ? key[u] : key[u + 1];
            place[u + 1] = swap ? place[u] : place[u + 1];
            key[u] = high;
            place[u] = high_place;
        }
}

// The K largest of all lanes' keys: lane r gets the r-th and its place. Each round looks at the lanes' first keys
// only, and at places only where two lanes have the same.
template <int COUNT>
__device__ __forceinline__ void choose(unsigned int (&key)[COUNT], int (&place)[COUNT], int lane, unsigned int &best,
                                       int &best_place)
{
    sort_own(key, place);
#pragma unroll
    for (int round = 0; round < K; round++) {
        const unsigned int largest = __reduce_max_sync(ALL, key[0]);
        const unsigned int peers = __ballot_sync(ALL, key[0] == largest);
        int first;
        if ((peers & (peers - 1)) == 0)
            first = __shfl_sync(ALL, place[0], __ffs(peers) - 1);
        else
            first = (int)__reduce_min_sync(ALL, key[0] == largest ? (unsigned int)place[0] : 0xffffffffu);
        if (lane == round) {
            best = largest;
            best_place = first;
        }
        if (key[0] == largest && place[0] == first) {
#pragma unroll
            for (int u = 0; u + 1 < COUNT; u++) {
                key[u] = key[u + 1];
                place[u] = place[u + 1];
            }
            key[COUNT - 1] = 0;
        }
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    topk(const float *__restrict__ in, float *__restrict__ values, int *__restrict__ places, int rows, int cols)
{
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= rows)
        return;
    const float *from = in + row * cols;
    unsigned int best = 0, key[HELD];
    int best_place = 0, place[HELD];
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        place[u] = u * 32 + lane;
        key[u] = place[u] < cols ? ordered(__ldcs(from + place[u]) + 0.0f) : 0;
    }
    choose(key, place, lane, best, best_place);
    for (int base = SPAN; base < cols; base += SPAN) {
        unsigned int more[HELD + 1];
        int where[HELD + 1];
        more[0] = lane < K ? best : 0;
        where[0] = best_place;
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            where[u + 1] = base + u * 32 + lane;
            more[u + 1] = where[u + 1] < cols ? ordered(__ldcs(from + where[u + 1]) + 0.0f) : 0;
        }
        choose(more, where, lane, best, best_place);
    }
    if (lane < K) {
        values[row * K + lane] = restored(best);
        places[row * K + lane] = best_place;
    }
}
