// A warp a token. The last of the wanted number of largest lane maxima bounds the chosen experts' logits from below, so
// that few remain; each of them counts those that come before it.
#define ROWS 8
#define HELD 8
#define SPAN (32 * HELD)
#define ALL 0xffffffffu

struct __align__(8) candidate {
    float value;
    int place;
};

// Sorts a number a lane, largest first.
__device__ __forceinline__ float sorted(float own, int lane)
{
#pragma unroll
    for (int span = 2; span <= 32; span *= 2)
#pragma unroll
        for (int distance = span / 2; distance > 0; distance /= 2) {
            const float other = __shfl_xor_sync(ALL, own, distance);
            const bool first = ((lane & distance) == 0) == ((lane & span) == 0);
            own = first ? fmaxf(own, other) : fminf(own, other);
        }
    return own;
}

// Up to 256 experts in a warp's registers. The softmax over all experts cancels in the renormalised weights, so only
// the chosen ones are exponentiated.
extern "C" __global__ void __launch_bounds__(32 * ROWS)
    route(const float *__restrict__ logits, float *__restrict__ weights, int *__restrict__ ids, int tokens,
          int experts, int choices)
{
    __shared__ candidate lists[ROWS][SPAN], all_chosen[ROWS][32];
    const int token = blockIdx.x * ROWS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (token >= tokens)
        return;
    const float *row = logits + static_cast<size_t>(token) * experts;
    candidate *list = lists[threadIdx.x / 32], *chosen = all_chosen[threadIdx.x / 32];
    const float lowest = __int_as_float(0xff800000);
    float own[HELD];
    if (experts % 4 == 0) {
#pragma unroll
        for (int q = 0; q < 2; q++) {
            float4 four = make_float4(lowest, lowest, lowest, lowest);
            if (4 * lane + q * 128 < experts)
                four = __ldcs(reinterpret_cast<const float4 *>(row + 4 * lane + q * 128));
            own[4 * q] = four.x, own[4 * q + 1] = four.y, own[4 * q + 2] = four.z, own[4 * q + 3] = four.w;
        }
    } else {
#pragma unroll
        for (int u = 0; u < HELD; u++) {
            const int at = 4 * lane + u / 4 * 128 + u % 4;
            own[u] = at < experts ? __ldcs(row + at) : lowest;
        }
    }
    float largest = own[0];
#pragma unroll
    for (int u = 1; u < HELD; u++)
        largest = fmaxf(largest, own[u]);
    const float order = sorted(largest, lane);
    const float top = __shfl_sync(ALL, order, 0), bound = __shfl_sync(ALL, order, choices - 1);
    int here = 0;
#pragma unroll
    for (int u = 0; u < HELD; u++)
        here += own[u] >= bound;
    int upto = here;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(ALL, upto, distance);
        upto += lane >= distance ? other : 0;
    }
    const int count = __shfl_sync(ALL, upto, 31);
    int to = upto - here;
#pragma unroll
    for (int u = 0; u < HELD; u++)
        if (own[u] >= bound)
            list[to++] = {own[u], 4 * lane + u / 4 * 128 + u % 4};
    __syncwarp();
    for (int c = lane; c < count; c += 32) {
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
    const float power = lane < choices ? __expf(chosen[lane].value - top) : 0.0f;
    float sum = power;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(ALL, sum, offset);
    if (lane < choices) {
        weights[static_cast<size_t>(token) * choices + lane] = __fdividef(power, sum);
        ids[static_cast<size_t>(token) * choices + lane] = chosen[lane].place;
    }
}
