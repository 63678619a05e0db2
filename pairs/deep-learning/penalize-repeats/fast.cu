#define THREADS 512
#define FREE -1

// A block a row. The tokens of its history are counted in a hash table in shared memory, and only their logits are
// touched.
extern "C" __global__ void __launch_bounds__(THREADS)
    penalize(const int *__restrict__ history, const int *__restrict__ lengths, float *__restrict__ logits, int longest,
             int vocab, int slots, float repetition, float frequency, float presence)
{
    extern __shared__ int2 table[];
    const int length = lengths[blockIdx.x];
    const int *own = history + static_cast<size_t>(blockIdx.x) * longest;
    float *row = logits + static_cast<size_t>(blockIdx.x) * vocab;
    if (length == 0)
        return;
    for (int i = threadIdx.x; i < slots; i += THREADS)
        table[i] = make_int2(FREE, 0);
    __syncthreads();
    for (int i = threadIdx.x; i < length; i += THREADS) {
        const int token = own[i];
        int at = token * 0x9E3779B1u >> 8 & (slots - 1);
        while (true) {
            const int found = atomicCAS(&table[at].x, FREE, token);
            if (found == FREE || found == token)
                break;
            at = (at + 1) & (slots - 1);
        }
        atomicAdd(&table[at].y, 1);
    }
    __syncthreads();
    const float inverse = 1.0f / repetition;
    for (int i = threadIdx.x; i < slots; i += THREADS) {
        const int2 entry = table[i];
        if (entry.x == FREE)
            continue;
        const float x = row[entry.x];
        row[entry.x] = x * (x > 0.0f ? inverse : repetition) - frequency * entry.y - presence;
    }
}
