// A block a row, whose history stays in registers: the thread that enters a token into the hash table owns it, fetches
// its logit at once, while others are still counting, and writes it when all are done. All loads of a thread are under
// way together, and nobody searches the table, which is as large as the row's own history needs.
#define THREADS 512
#define FREE -1

template <int EACH>
__global__ void __launch_bounds__(THREADS)
    penalize(const int *__restrict__ history, const int *__restrict__ lengths, float *__restrict__ logits, int longest,
             int vocab, int slots, float repetition, float frequency, float presence)
{
    extern __shared__ __align__(16) int keys[];
    int *counts = keys + slots;
    const int length = lengths[blockIdx.x];
    const int *own = history + static_cast<size_t>(blockIdx.x) * longest;
    float *row = logits + static_cast<size_t>(blockIdx.x) * vocab;
    if (length == 0)
        return;
    int token[EACH], place[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int i = e * THREADS + threadIdx.x;
        token[e] = i < length ? __ldcs(own + i) : FREE;
    }
    const int used = min(slots, 1 << (32 - __clz(length * 3 / 2)));
    for (int i = threadIdx.x; i < used; i += THREADS) {
        keys[i] = FREE;
        counts[i] = 0;
    }
    __syncthreads();
    float x[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        place[e] = FREE;
        if (token[e] == FREE)
            continue;
        int at = token[e] * 0x9E3779B1u >> 8 & (used - 1), found;
        while ((found = atomicCAS(&keys[at], FREE, token[e])) != FREE && found != token[e])
            at = (at + 1) & (used - 1);
        atomicAdd(&counts[at], 1);
        if (found == FREE) {
            place[e] = at;
            x[e] = row[token[e]];
        }
    }
    __syncthreads();
    const float inverse = 1.0f / repetition;
#pragma unroll
    for (int e = 0; e < EACH; e++)
        if (place[e] != FREE)
            row[token[e]] = x[e] * (x[e] > 0.0f ? inverse : repetition) - frequency * counts[place[e]] - presence;
}
