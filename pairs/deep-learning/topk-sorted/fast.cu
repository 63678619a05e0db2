// Half a warp a row. The K-th largest of the sixteen lanes' maxima bounds the K-th largest value from below, so that
// little more than K values remain; each of them counts those that come before it.
#define K 8
#define LANES 16
#define HELD 8
#define SPAN (LANES * HELD)
#define ROWS 16
#define ALL 0xffffffffu

struct __align__(8) candidate {
    float value;
    int place;
};

// Sorts a number a lane within half a warp, largest first.
__device__ __forceinline__ float sorted(float own, int lane)
{
#pragma unroll
    for (int span = 2; span <= LANES; span *= 2)
#pragma unroll
        for (int distance = span / 2; distance > 0; distance /= 2) {
            const float other = __shfl_xor_sync(ALL, own, distance);
            const bool first = ((lane & distance) == 0) == ((lane & span) == 0 || span == LANES);
            own = first ? fmaxf(own, other) : fminf(own, other);
        }
    return own;
}

extern "C" __global__ void __launch_bounds__(LANES *ROWS)
    topk(const float *__restrict__ in, float *__restrict__ values, int *__restrict__ places, int rows, int cols)
{
    __shared__ candidate lists[ROWS][K + SPAN], chosen[ROWS][K];
    const int lane = threadIdx.x % LANES, half = threadIdx.x / LANES;
    const int row = blockIdx.x * ROWS + half;
    const float *from = in + static_cast<long long>(min(row, rows - 1)) * cols;
    candidate *list = lists[half];
    const float lowest = __int_as_float(0xff800000);
    for (int base = 0; base < cols; base += SPAN) {
        float own[HELD];
        const int first = base + 4 * lane;
        if (cols % 4 == 0) {
#pragma unroll
            for (int q = 0; q < 2; q++) {
                float4 four = make_float4(lowest, lowest, lowest, lowest);
                if (first + q * 64 < cols)
                    four = __ldcs(reinterpret_cast<const float4 *>(from + first + q * 64));
                own[4 * q] = four.x, own[4 * q + 1] = four.y, own[4 * q + 2] = four.z, own[4 * q + 3] = four.w;
            }
        } else {
#pragma unroll
            for (int u = 0; u < HELD; u++) {
                const int at = first + u / 4 * 64 + u % 4;
                own[u] = at < cols ? __ldcs(from + at) : lowest;
            }
        }
        float largest = own[0];
#pragma unroll
        for (int u = 1; u < HELD; u++)
            largest = fmaxf(largest, own[u]);
        const float bound = __shfl_sync(ALL, sorted(largest, lane), K - 1, LANES);
        int here = 0;
#pragma unroll
        for (int u = 0; u < HELD; u++)
            here += own[u] >= bound;
        int upto = here;
#pragma unroll
        for (int distance = 1; distance < LANES; distance *= 2) {
            const int other = __shfl_up_sync(ALL, upto, distance, LANES);
            upto += lane >= distance ? other : 0;
        }
        const int earlier = base > 0 ? K : 0;
        const int count = earlier + __shfl_sync(ALL, upto, LANES - 1, LANES);
        int to = earlier + upto - here;
        if (lane < earlier)
            list[lane] = chosen[half][lane];
#pragma unroll
        for (int u = 0; u < HELD; u++)
            if (own[u] >= bound)
                list[to++] = {own[u], first + u / 4 * 64 + u % 4};
        __syncwarp();
        for (int c = lane; c < count; c += LANES) {
            const candidate mine = list[c];
            int rank = 0;
#pragma unroll 4
            for (int i = 0; i < count; i++) {
                const candidate other = list[i];
                rank += other.value > mine.value || (other.value == mine.value && other.place < mine.place);
            }
            if (rank < K)
                chosen[half][rank] = mine;
        }
        __syncwarp();
    }
    if (lane < K && row < rows) {
        values[static_cast<long long>(row) * K + lane] = chosen[half][lane].value + 0.0f;
        places[static_cast<long long>(row) * K + lane] = chosen[half][lane].place;
    }
}
