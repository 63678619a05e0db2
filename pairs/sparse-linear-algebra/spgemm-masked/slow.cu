extern "C" __global__ void multiply(const int *a_offsets, const int *a_columns, const float *a_values,
                                    const int *b_offsets, const int *b_columns, const float *b_values,
                                    const int *mask_offsets, const int *mask_columns, float *out, int rows)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    int begin = mask_offsets[row], end = mask_offsets[row + 1];
    for (int e = begin; e < end; e++)
        out[e] = 0.0f;
    for (int i = a_offsets[row]; i < a_offsets[row + 1]; i++) {
        int inner = a_columns[i];
        for (int j = b_offsets[inner]; j < b_offsets[inner + 1]; j++) {
            int low = begin, high = end;
            while (low < high) {
                int middle = (low + high) / 2;
                if (mask_columns[middle] < b_columns[j])
                    low = middle + 1;
                else
                    high = middle;
            }
            if (low < end && mask_columns[low] == b_columns[j])
                out[low] += a_values[i] * b_values[j];
        }
    }
}
