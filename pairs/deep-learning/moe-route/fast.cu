// Half a warp for two tokens at once. The last of the wanted number of largest lane maxima bounds the chosen experts'
// logits from below, so that few remain; each of them counts those that come before it. More than a short list holds
// are counted from the row itself.
#define LANES 16
#define ROWS 8
#define TURNS 2
#define MOST 32
#define SHORT 48
#define ALL 0xffffffffu

struct __align__(8) candidate {
    float value;
    int place;
};

// Sorts numbers, TURNS a lane, within half a warp, largest first.
__device__ __forceinline__ void sort(float (&own)[TURNS], int lane)
{
#pragma unroll
    for (int span = 2; span <= LANES; span *= 2)
#pragma unroll
        for (int distance = span / 2; distance > 0; distance /= 2) {
            const bool first = ((lane & distance) == 0) == ((lane & span) == 0 || span == LANES);
#pragma unroll
            for (int t = 0; t < TURNS; t++) {
                const float other = __shfl_xor_sync(ALL, own[t], distance);
                own[t] = first ? fmaxf(own[t], other) : fminf(own[t], other);
            }
        }
}

__device__ __forceinline__ bool before(candidate a, candidate b)
{
    return a.value > b.value || (a.value == b.value && a.place < b.place);
}

// Up to 16 * HELD experts in half a warp's registers. The softmax over all experts cancels in the renormalised weights,
// so only the chosen ones are exponentiated.
template <int HELD>
__global__ void __launch_bounds__(LANES *ROWS, 9)
    route(const float *__restrict__ logits, float *__restrict__ weights, int *__restrict__ ids, int tokens,
          int experts, int choices)
{
    __shared__ candidate lists[ROWS][TURNS][SHORT + 1], all_chosen[ROWS][TURNS][MOST + 1];
    const int lane = threadIdx.x % LANES, half = threadIdx.x / LANES;
    const float lowest = __int_as_float(0xff800000);
    int token[TURNS];
    float own[TURNS][HELD];
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        token[t] = (blockIdx.x * TURNS + t) * ROWS + half;
        const float *row = logits + static_cast<size_t>(min(token[t], tokens - 1)) * experts;
        if (experts % 4 == 0) {
#pragma unroll
            for (int q = 0; q < HELD / 4; q++) {
                float4 four = make_float4(lowest, lowest, lowest, lowest);
                if (4 * (lane + q * LANES) < experts)
                    four = __ldcs(reinterpret_cast<const float4 *>(row) + lane + q * LANES);
                own[t][4 * q] = four.x, own[t][4 * q + 1] = four.y;
                own[t][4 * q + 2] = four.z, own[t][4 * q + 3] = four.w;
            }
        } else {
#pragma unroll
            for (int u = 0; u < HELD; u++) {
                const int at = 4 * (lane + u / 4 * LANES) + u % 4;
                own[t][u] = at < experts ? __ldcs(row + at) : lowest;
            }
        }
    }
    float order[TURNS];
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        order[t] = own[t][0];
#pragma unroll
        for (int u = 1; u < HELD; u++)
            order[t] = fmaxf(order[t], own[t][u]);
    }
    sort(order, lane);
    float top[TURNS], bound[TURNS];
    int here[TURNS], upto[TURNS], count[TURNS];
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        top[t] = __shfl_sync(ALL, order[t], 0, LANES);
        const float last = __shfl_sync(ALL, order[t], (choices - 1) % LANES, LANES);
        bound[t] = choices <= LANES ? last : lowest;
        here[t] = 0;
#pragma unroll
        for (int u = 0; u < HELD; u++)
            here[t] += own[t][u] >= bound[t];
        upto[t] = here[t];
    }
#pragma unroll
    for (int distance = 1; distance < LANES; distance *= 2)
#pragma unroll
        for (int t = 0; t < TURNS; t++) {
            const int other = __shfl_up_sync(ALL, upto[t], distance, LANES);
            upto[t] += lane >= distance ? other : 0;
        }
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        count[t] = __shfl_sync(ALL, upto[t], LANES - 1, LANES);
        if (here[t] > 0 && count[t] <= SHORT) {
            candidate *to = lists[half][t] + upto[t] - here[t];
#pragma unroll
            for (int u = 0; u < HELD; u++)
                if (own[t][u] >= bound[t])
                    *to++ = {own[t][u], 4 * (lane + u / 4 * LANES) + u % 4};
        }
    }
    __syncwarp();
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        const candidate *list = lists[half][t];
        candidate *chosen = all_chosen[half][t];
        if (count[t] <= SHORT) {
            for (int c = lane; c < count[t]; c += LANES) {
                const candidate mine = list[c];
                int rank = 0;
#pragma unroll 4
                for (int i = 0; i < count[t]; i++)
                    rank += before(list[i], mine);
                if (rank < choices)
                    chosen[rank] = mine;
            }
        } else {
            const float *row = logits + static_cast<size_t>(min(token[t], tokens - 1)) * experts;
#pragma unroll
            for (int u = 0; u < HELD; u++) {
                const candidate mine = {own[t][u], 4 * (lane + u / 4 * LANES) + u % 4};
                if (mine.value >= bound[t] && mine.place < experts) {
                    int rank = 0;
#pragma unroll 1
                    for (int i = 0; i < experts; i++)
                        rank += before({row[i], i}, mine);
                    if (rank < choices)
                        chosen[rank] = mine;
                }
            }
        }
    }
    __syncwarp();
#pragma unroll
    for (int t = 0; t < TURNS; t++) {
        const candidate *chosen = all_chosen[half][t];
        float power[MOST / LANES], sum = 0.0f;
#pragma unroll
        for (int p = 0; p < MOST / LANES; p++) {
            const int c = lane + p * LANES;
            power[p] = c < choices ? __expf(chosen[c].value - top[t]) : 0.0f;
            sum += power[p];
        }
#pragma unroll
        for (int offset = LANES / 2; offset > 0; offset /= 2)
            sum += __shfl_xor_sync(ALL, sum, offset);
#pragma unroll
        for (int p = 0; p < MOST / LANES; p++) {
            const int c = lane + p * LANES;
            if (token[t] < tokens && c < choices) {
                weights[static_cast<size_t>(token[t]) * choices + c] = __fdividef(power[p], sum);
                ids[static_cast<size_t>(token[t]) * choices + c] = chosen[c].place;
            }
        }
    }
}
