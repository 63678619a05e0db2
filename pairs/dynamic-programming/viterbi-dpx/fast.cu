// Scores are multiples of 64, so that the state that a move comes from rides in the low bits: a sum and a maximum
// are one DPX instruction, and of equal scores the lowest state wins.
#define STATES 64
#define SYMBOLS 16
#define CHUNK 32
#define LEAST (-2147483647 - 1)

extern "C" __global__ void __launch_bounds__(STATES)
    decode(const unsigned char *__restrict__ symbols, const int *__restrict__ moves, const int *__restrict__ emits,
           unsigned char *__restrict__ froms, int *__restrict__ path, int *__restrict__ score, int steps)
{
    __shared__ __align__(16) int scores[2][STATES];
    __shared__ int emit[STATES * SYMBOLS];
    __shared__ __align__(16) unsigned char links[CHUNK * STATES];
    __shared__ int last;
    const int state = threadIdx.x;
    const unsigned char *row = symbols + static_cast<size_t>(blockIdx.x) * steps;
    unsigned char *own_froms = froms + static_cast<size_t>(blockIdx.x) * steps * STATES;
    int *own_path = path + static_cast<size_t>(blockIdx.x) * steps;
    int move[STATES];
#pragma unroll
    for (int other = 0; other < STATES; other++)
        move[other] = moves[other * STATES + state] * STATES + STATES - 1 - other;
    for (int e = state; e < STATES * SYMBOLS; e += STATES)
        emit[e / SYMBOLS + e % SYMBOLS * STATES] = emits[e] * STATES;
    __syncthreads();
    scores[0][state] = emit[row[0] * STATES + state];
    int symbol = row[min(1, steps - 1)];
    __syncthreads();
    for (int step = 1; step < steps; step++) {
        const int next_symbol = row[min(step + 1, steps - 1)];
        const int4 *before = reinterpret_cast<const int4 *>(scores[(step - 1) % 2]);
        int best[4] = {LEAST, LEAST, LEAST, LEAST};
#pragma unroll
        for (int q = 0; q < STATES / 4; q++) {
            const int4 four = before[q];
            best[0] = __viaddmax_s32(four.x, move[4 * q], best[0]);
            best[1] = __viaddmax_s32(four.y, move[4 * q + 1], best[1]);
            best[2] = __viaddmax_s32(four.z, move[4 * q + 2], best[2]);
            best[3] = __viaddmax_s32(four.w, move[4 * q + 3], best[3]);
        }
        const int most = max(max(best[0], best[1]), max(best[2], best[3]));
        scores[step % 2][state] = (most & ~(STATES - 1)) + emit[symbol * STATES + state];
        own_froms[step * STATES + state] = STATES - 1 - (most & (STATES - 1));
        symbol = next_symbol;
        __syncthreads();
    }
    const int *ends = scores[(steps - 1) % 2];
    if (state == 0) {
        int best = 0;
        for (int other = 1; other < STATES; other++)
            if (ends[other] > ends[best])
                best = other;
        score[blockIdx.x] = ends[best] / STATES;
        last = best;
    }
    for (int top = steps - 1; top >= 0; top -= CHUNK) {
        const int low = max(top - CHUNK + 1, 0);
        const int count = (top - low + 1) * STATES / 16;
        __syncthreads();
        for (int i = state; i < count; i += STATES)
            reinterpret_cast<int4 *>(links)[i] = reinterpret_cast<const int4 *>(own_froms + low * STATES)[i];
        __syncthreads();
        if (state == 0) {
            int now = last;
            for (int step = top; step >= low; step--) {
                own_path[step] = now;
                if (step > 0)
                    now = links[(step - low) * STATES + now];
            }
            last = now;
        }
    }
}
