#define K 32

extern "C" __global__ void top_values(const float *values, float *best, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float kept[K];
    for (int i = 0; i < K; i++)
        kept[i] = __int_as_float(0xff800000);
    for (int col = 0; col < cols; col++) {
        float value = values[row * cols + col];
        if (value <= kept[K - 1])
            continue;
        int place = K - 1;
        while (place > 0 && kept[place - 1] < value) {
            kept[place] = kept[place - 1];
            place--;
        }
        kept[place] = value;
    }
    for (int i = 0; i < K; i++)
        best[row * K + i] = kept[i];
}
