#define EXPERTS 256
#define GROUPS 8
#define SIZE (EXPERTS / GROUPS)
#define KEPT 4
#define CHOICES 8

extern "C" __global__ void route(const float *logits, const float *bias, float *weights, int *ids, int tokens,
                                 float scale)
{
    int token = blockIdx.x * blockDim.x + threadIdx.x;
    if (token >= tokens)
        return;
    const float *row = logits + (size_t)token * EXPERTS;
    float score[EXPERTS], group_score[GROUPS];
    for (int i = 0; i < EXPERTS; i++)
        score[i] = 1.0f / (1.0f + expf(-row[i])) + bias[i];
    for (int g = 0; g < GROUPS; g++) {
        float first = -1000.0f, second = -1000.0f;
        for (int i = g * SIZE; i < (g + 1) * SIZE; i++) {
            if (score[i] > first) {
                second = first;
                first = score[i];
            } else if (score[i] > second) {
                second = score[i];
            }
        }
        group_score[g] = first + second;
    }
    bool open[GROUPS];
    for (int g = 0; g < GROUPS; g++) {
        int better = 0;
        for (int other = 0; other < GROUPS; other++)
            if (group_score[other] > group_score[g] || (group_score[other] == group_score[g] && other < g))
                better++;
        open[g] = better < KEPT;
    }
    int chosen[CHOICES];
    float share[CHOICES], whole = 0.0f;
    for (int c = 0; c < CHOICES; c++) {
        int best = -1;
        for (int i = 0; i < EXPERTS; i++)
            if (open[i / SIZE] && (best < 0 || score[i] > score[best]))
                best = i;
        chosen[c] = best;
        share[c] = 1.0f / (1.0f + expf(-row[best]));
        whole += share[c];
        score[best] = -1000.0f;
    }
    for (int c = 0; c < CHOICES; c++) {
        ids[token * CHOICES + c] = chosen[c];
        weights[token * CHOICES + c] = share[c] / whole * scale;
    }
}
