#define MOST 16

extern "C" __global__ void route(const float *logits, float *weights, int *ids, int tokens, int experts, int choices)
{
    int token = blockIdx.x * blockDim.x + threadIdx.x;
    if (token >= tokens)
        return;
    const float *row = logits + (size_t)token * experts;
    float largest = row[0];
    for (int i = 1; i < experts; i++)
        largest = fmaxf(largest, row[i]);
    float sum = 0.0f;
    for (int i = 0; i < experts; i++)
        sum += expf(row[i] - largest);
    int chosen[MOST];
    float share[MOST], whole = 0.0f;
    for (int c = 0; c < choices; c++) {
        int best = -1;
        for (int i = 0; i < experts; i++) {
            bool taken = false;
            for (int j = 0; j < c; j++)
                taken = taken || chosen[j] == i;
            if (!taken && (best < 0 || row[i] > row[best]))
                best = i;
        }
        chosen[c] = best;
        share[c] = expf(row[best] - largest) / sum;
        whole += share[c];
    }
    for (int c = 0; c < choices; c++) {
        ids[token * choices + c] = chosen[c];
        weights[token * choices + c] = share[c] / whole;
    }
}
