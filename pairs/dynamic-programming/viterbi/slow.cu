#define STATES 64
#define SYMBOLS 16

extern "C" __global__ void first(const unsigned char *symbols, const int *emits, int *scores, int batch, int steps)
{
    int state = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < batch)
        scores[row * STATES + state] = emits[state * SYMBOLS + symbols[row * steps]];
}

extern "C" __global__ void advance(const unsigned char *symbols, const int *moves, const int *emits, const int *before,
                                   int *scores, int *froms, int step, int batch, int steps)
{
    int state = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= batch)
        return;
    int best = before[row * STATES] + moves[state];
    int from = 0;
    for (int other = 1; other < STATES; other++) {
        int score = before[row * STATES + other] + moves[other * STATES + state];
        if (score > best) {
            best = score;
            from = other;
        }
    }
    scores[row * STATES + state] = best + emits[state * SYMBOLS + symbols[row * steps + step]];
    froms[(step * batch + row) * STATES + state] = from;
}

extern "C" __global__ void trace(const int *scores, const int *froms, int *path, int *score, int batch, int steps)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= batch)
        return;
    int state = 0;
    for (int other = 1; other < STATES; other++)
        if (scores[row * STATES + other] > scores[row * STATES + state])
            state = other;
    score[row] = scores[row * STATES + state];
    for (int step = steps - 1; step > 0; step--) {
        path[row * steps + step] = state;
        state = froms[(step * batch + row) * STATES + state];
    }
    path[row * steps] = state;
}
