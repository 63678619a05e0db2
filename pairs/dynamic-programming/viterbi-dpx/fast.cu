// A warp a sequence, two states a lane in the halves of a register: one DPX instruction on pairs of 16 bits does two
// sums and maxima. Scores count from the first state's a step before: moves and emissions of at most 8000 together keep
// them within 16 bits. No step notes where it came from; the way back looks again, at the states of the path alone.
#define STATES 64
#define SYMBOLS 16
#define WARPS 4
#define THREADS (32 * WARPS)
#define BATCH 16
#define FULL 0xffffffffu
#define LEAST 0x80008000u

__device__ __forceinline__ unsigned pack(int low, int high)
{
    return __byte_perm(low, high, 0x5410);
}

__device__ __forceinline__ unsigned add2(unsigned a, unsigned b)
{
    return __viaddmax_s16x2(a, b, LEAST);
}

// The best of all lanes' two states, the lowest of equals: its score times 64 and 63 less its number.
__device__ __forceinline__ int best_of(unsigned scores, int lane)
{
    const int low = static_cast<short>(scores), high = static_cast<int>(scores) >> 16;
    return __reduce_max_sync(FULL, max(low * STATES + STATES - 1 - lane, high * STATES + STATES - 33 - lane));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    decode(const unsigned char *__restrict__ symbols, const int *__restrict__ moves, const int *__restrict__ emits,
           unsigned *trail, int *__restrict__ path, int *__restrict__ score, int batch, int steps)
{
    __shared__ __align__(16) unsigned scores[WARPS][2][STATES];
    __shared__ unsigned emit[SYMBOLS * 32];
    __shared__ unsigned into[STATES * 33];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, sequence = blockIdx.x * WARPS + warp;
    for (int i = threadIdx.x; i < SYMBOLS * 32; i += THREADS)
        emit[i] = pack(emits[i % 32 * SYMBOLS + i / 32], emits[(i % 32 + 32) * SYMBOLS + i / 32]);
    for (int i = threadIdx.x; i < STATES * 32; i += THREADS)
        into[i % STATES * 33 + i / STATES] = pack(moves[i], moves[i + 32 * STATES]);
    __syncthreads();
    if (sequence >= batch)
        return;
    const unsigned char *row = symbols + static_cast<size_t>(sequence) * steps;
    unsigned *own_trail = trail + static_cast<size_t>(sequence) * steps * 32 + lane;
    int *own_path = path + static_cast<size_t>(sequence) * steps;
    unsigned move[STATES];
#pragma unroll
    for (int other = 0; other < STATES; other++)
        move[other] = pack(__ldg(moves + other * STATES + lane), __ldg(moves + other * STATES + lane + 32));
    int symbol = lane < steps ? row[lane] : 0, next_symbol = 32 + lane < steps ? row[32 + lane] : 0;
    unsigned now = emit[__shfl_sync(FULL, symbol, 0) * 32 + lane];
    int base = 0;
    for (int step = 0;;) {
        unsigned *shown = scores[warp][step % 2];
        shown[lane] = __byte_perm(now, 0, 0x1010);
        shown[lane + 32] = __byte_perm(now, 0, 0x3232);
        own_trail[step * 32] = now;
        if (++step == steps)
            break;
        if (step % 32 == 0) {
            symbol = next_symbol;
            next_symbol = step + 32 + lane < steps ? row[step + 32 + lane] : 0;
        }
        const unsigned emitted = emit[__shfl_sync(FULL, symbol, step % 32) * 32 + lane];
        __syncwarp();
        const uint4 *before = reinterpret_cast<const uint4 *>(shown);
        unsigned best[4] = {LEAST, LEAST, LEAST, LEAST};
        unsigned first = 0;
#pragma unroll
        for (int q = 0; q < STATES / 4; q++) {
            const uint4 four = before[q];
            if (q == 0)
                first = four.x;
            best[0] = __viaddmax_s16x2(four.x, move[4 * q], best[0]);
            best[1] = __viaddmax_s16x2(four.y, move[4 * q + 1], best[1]);
            best[2] = __viaddmax_s16x2(four.z, move[4 * q + 2], best[2]);
            best[3] = __viaddmax_s16x2(four.w, move[4 * q + 3], best[3]);
        }
        const int less = static_cast<short>(first);
        base += less;
        now = add2(add2(__vimax3_s16x2(best[0], best[1], __vmaxs2(best[2], best[3])), emitted), pack(-less, -less));
    }
    int at = best_of(now, lane);
    if (lane == 0)
        score[sequence] = (at >> 6) + base;
    at = STATES - 1 - (at & (STATES - 1));
    // Backwards, BATCH steps' scores at a time; those of the next ones are on their way.
    unsigned ahead[BATCH];
#pragma unroll
    for (int k = 0; k < BATCH; k++)
        ahead[k] = steps - 2 - k >= 0 ? own_trail[(steps - 2 - k) * 32] : 0;
    for (int last = steps - 1; last >= 0; last -= BATCH) {
        unsigned earlier[BATCH];
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            earlier[k] = ahead[k];
            const int wanted = last - BATCH - 1 - k;
            ahead[k] = wanted >= 0 ? own_trail[wanted * 32] : 0;
        }
        int mine = 0;
#pragma unroll
        for (int k = 0; k < BATCH; k++) {
            mine = lane == k ? at : mine;
            if (last - k > 0)
                at = STATES - 1 - (best_of(add2(earlier[k], into[at * 33 + lane]), lane) & (STATES - 1));
        }
        if (lane < BATCH && last - lane >= 0)
            own_path[last - lane] = mine;
    }
}
