extern "C" __global__ void sort_segments(const int *offsets, const unsigned *keys, const int *values,
                                         unsigned *sorted_keys, int *sorted_values, int segments)
{
    int segment = blockIdx.x * blockDim.x + threadIdx.x;
    if (segment >= segments)
        return;
    int begin = offsets[segment];
    for (int i = begin; i < offsets[segment + 1]; i++) {
        unsigned key = keys[i];
        int j = i;
        for (; j > begin && sorted_keys[j - 1] > key; j--) {
            sorted_keys[j] = sorted_keys[j - 1];
            sorted_values[j] = sorted_values[j - 1];
        }
        sorted_keys[j] = key;
        sorted_values[j] = values[i];
    }
}
