extern "C" __global__ void count_tokens(const int *history, const int *lengths, int *counts, int longest, int vocab)
{
    int i = blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x;
    if (i < lengths[row])
        atomicAdd(&counts[(size_t)row * vocab + history[row * longest + i]], 1);
}

extern "C" __global__ void penalize(const int *counts, float *logits, int vocab, float repetition, float frequency,
                                    float presence)
{
    int i = blockIdx.y * blockDim.x + threadIdx.x;
    if (i >= vocab)
        return;
    size_t at = (size_t)blockIdx.x * vocab + i;
    int count = counts[at];
    if (count == 0)
        return;
    float x = logits[at];
    x = x > 0.0f ? x / repetition : x * repetition;
    logits[at] = x - frequency * count - presence;
}
