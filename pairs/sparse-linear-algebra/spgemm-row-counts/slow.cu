extern "C" __global__ void count(const int *a_offsets, const int *a_columns, const int *b_offsets, const int *b_columns,
                                 unsigned *marks, int *counts, int rows, int words)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    unsigned *mark = marks + (size_t)row * words;
    int different = 0;
    for (int i = a_offsets[row]; i < a_offsets[row + 1]; i++) {
        int inner = a_columns[i];
        for (int j = b_offsets[inner]; j < b_offsets[inner + 1]; j++) {
            unsigned bit = 1u << (b_columns[j] % 32);
            if (!(mark[b_columns[j] / 32] & bit)) {
                mark[b_columns[j] / 32] |= bit;
                different++;
            }
        }
    }
    counts[row] = different;
}
