// A warp a token, a lane eight experts of one group, so that a group's two best are found in registers and two
// exchanges. The eighth largest of the lanes' maxima bounds the chosen from below; each expert above it counts those
// that come before it.
#define EXPERTS 256
#define GROUPS 8
#define KEPT 4
#define CHOICES 8
#define ROWS 8
#define HELD 8
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

extern "C" __global__ void __launch_bounds__(32 * ROWS)
    route(const float *__restrict__ logits, const float *__restrict__ bias, float *__restrict__ weights,
          int *__restrict__ ids, int tokens, float scale)
{
    __shared__ candidate lists[ROWS][EXPERTS];
    __shared__ float scores[ROWS][EXPERTS];
    __shared__ int all_chosen[ROWS][CHOICES];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, token = blockIdx.x * ROWS + warp;
    if (token >= tokens)
        return;
    const float4 *row = reinterpret_cast<const float4 *>(logits + static_cast<size_t>(token) * EXPERTS) + 2 * lane;
    const float4 *added = reinterpret_cast<const float4 *>(bias) + 2 * lane;
    const float4 in[2] = {row[0], row[1]}, offset[2] = {added[0], added[1]};
    float score[HELD], key[HELD];
#pragma unroll
    for (int q = 0; q < 2; q++) {
        score[4 * q] = in[q].x, score[4 * q + 1] = in[q].y, score[4 * q + 2] = in[q].z, score[4 * q + 3] = in[q].w;
        key[4 * q] = offset[q].x, key[4 * q + 1] = offset[q].y, key[4 * q + 2] = offset[q].z,
               key[4 * q + 3] = offset[q].w;
    }
    float first = __int_as_float(0xff800000), second = first;
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        score[u] = 1.0f / (1.0f + expf(-score[u]));
        key[u] += score[u];
        second = fmaxf(second, fminf(first, key[u]));
        first = fmaxf(first, key[u]);
    }
    const float own_largest = first;
#pragma unroll
    for (int distance = 1; distance < 4; distance *= 2) {
        const float other_first = __shfl_xor_sync(ALL, first, distance);
        const float other_second = __shfl_xor_sync(ALL, second, distance);
        second = fmaxf(fminf(first, other_first), fmaxf(second, other_second));
        first = fmaxf(first, other_first);
    }
    const float group_score = first + second;
    int better = 0;
#pragma unroll
    for (int apart = 1; apart < GROUPS; apart++) {
        const float other = __shfl_xor_sync(ALL, group_score, 4 * apart);
        const bool before = (lane / 4 ^ apart) < lane / 4;
        better += other > group_score || (other == group_score && before);
    }
    const bool kept = better < KEPT;
    const float largest = kept ? own_largest : __int_as_float(0xff800000);
    const float bound = __shfl_sync(ALL, sorted(largest, lane), CHOICES - 1);
    int here = 0;
#pragma unroll
    for (int u = 0; u < HELD; u++)
        here += kept && key[u] >= bound;
    int upto = here;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int other = __shfl_up_sync(ALL, upto, distance);
        upto += lane >= distance ? other : 0;
    }
    const int count = __shfl_sync(ALL, upto, 31);
    candidate *list = lists[warp];
    int to = upto - here;
#pragma unroll
    for (int u = 0; u < HELD; u++)
        if (kept && key[u] >= bound) {
            list[to] = {key[u], 8 * lane + u};
            scores[warp][to] = score[u];
            to++;
        }
    __syncwarp();
    for (int c = lane; c < count; c += 32) {
        const candidate mine = list[c];
        int rank = 0;
#pragma unroll 4
        for (int i = 0; i < count; i++) {
            const candidate other = list[i];
            rank += other.value > mine.value || (other.value == mine.value && other.place < mine.place);
        }
        if (rank < CHOICES)
            all_chosen[warp][rank] = c;
    }
    __syncwarp();
    const int chosen = lane < CHOICES ? all_chosen[warp][lane] : 0;
    const float share = lane < CHOICES ? scores[warp][chosen] : 0.0f;
    float sum = share;
#pragma unroll
    for (int distance = 1; distance < CHOICES; distance *= 2)
        sum += __shfl_xor_sync(ALL, sum, distance);
    if (lane < CHOICES) {
        weights[static_cast<size_t>(token) * CHOICES + lane] = share / sum * scale;
        ids[static_cast<size_t>(token) * CHOICES + lane] = list[chosen].place;
    }
}
