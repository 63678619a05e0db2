// Half a warp a token. The last of the wanted number of largest lane maxima bounds the chosen experts' logits from below,
// so that few remain; each of them counts those that come before it. Sorting and counting cost a warp as much for two
// tokens as for one.
#define LANES 16
#define ROWS 16
#define MOST 32
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

// Up to 16 * HELD experts in half a warp's registers. The softmax over all experts cancels in the renormalised weights, so
// only the chosen ones are exponentiated.
template <int HELD>
__global__ void __launch_bounds__(LANES *ROWS)
    route(const float *__restrict__ logits, float *__restrict__ weights, int *__restrict__ ids, int tokens,
          int experts, int choices)
{
    __shared__ candidate lists[ROWS][LANES * HELD + 1], all_chosen[ROWS][MOST + 1];
    const int lane = threadIdx.x % LANES, half = threadIdx.x / LANES, token = blockIdx.x * ROWS + half;
    const float *row = logits + static_cast<size_t>(min(token, tokens - 1)) * experts;
    candidate *list = lists[half], *chosen = all_chosen[half];
    const float lowest = __int_as_float(0xff800000);
    float own[HELD];
    if (experts % 4 == 0) {
#pragma unroll
        for (int q = 0; q < HELD / 4; q++) {
            float4 four = make_float4(lowest, lowest, lowest, lowest);
            if (4 * (lane + q * LANES) < experts)
                four = __ldcs(reinterpret_cast<const float4 *>(row) + lane + q * LANES);
            own[4 * q] = four.x, own[4 * q + 1] = four.y, own[4 * q + 2] = four.z, own[4 * q + 3] = four.w;
        }
    } else {
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            const int at = 4 * (lane + u / 4 * LANES) + u % 4;
            own[u] = at < experts ? __ldcs(row + at) : lowest;
        }
    }
    float largest = own[0];
#pragma unroll
    for (int u = 1; u < HELD; u++)
        largest = fmaxf(largest, own[u]);
    const float order = sorted(largest, lane);
    const float top = __shfl_sync(ALL, order, 0, LANES), last = __shfl_sync(ALL, order, (choices - 1) % LANES, LANES);
    const float bound = choices <= LANES ? last : lowest;
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
    const int count = __shfl_sync(ALL, upto, LANES - 1, LANES);
    if (here > 0) {
        int to = upto - here;
#pragma unroll
        for (int u = 0; u < HELD; u++)
            if (own[u] >= bound)
                list[to++] = {own[u], 4 * (lane + u / 4 * LANES) + u % 4};
    }
    __syncwarp();
    for (int c = lane; c < count; c += LANES) {
        const candidate mine = list[c];
        int rank = 0;
#pragma unroll 4
        for (int i = 0; i < count; i++) {
            const candidate other = list[i];
            rank += other.value > mine.value || (other.value == mine.value && other.place < mine.place);
        }
        if (rank < choices)
            chosen[rank] = mine;
    }
    __syncwarp();
    float power[MOST / LANES], sum = 0.0f;
#pragma unroll
    for (int p = 0; p < MOST / LANES; p++) {
        const int c = lane + p * LANES;
        power[p] = c < choices ? __expf(chosen[c].value - top) : 0.0f;
        sum += power[p];
    }
#pragma unroll
    for (int offset = LANES / 2; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(ALL, sum, offset);
    if (token >= tokens)
        return;
#pragma unroll
    for (int p = 0; p < MOST / LANES; p++) {
        const int c = lane + p * LANES;
        if (c < choices) {
            weights[static_cast<size_t>(token) * choices + c] = __fdividef(power[p], sum);
            ids[static_cast<size_t>(token) * choices + c] = chosen[c].place;
        }
    }
}
