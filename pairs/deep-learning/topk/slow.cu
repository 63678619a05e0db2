#define K 8

extern "C" __global__ void topk(const float *in, float *values, int *places, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float best[K];
    int place[K];
    int found = 0;
    for (int i = 0; i < cols; i++) {
        float value = in[row * cols + i];
        if (found == K && value <= best[K - 1])
            continue;
        int j = found < K ? found++ : K - 1;
        for (; j > 0 && best[j - 1] < value; j--) {
            best[j] = best[j - 1];
            place[j] = place[j - 1];
        }
        best[j] = value;
        place[j] = i;
    }
    for (int j = 0; j < K; j++) {
        values[row * K + j] = best[j];
        places[row * K + j] = place[j];
    }
}
