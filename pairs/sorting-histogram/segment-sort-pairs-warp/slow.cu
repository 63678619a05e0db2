#define LONGEST 512

// A block for each segment; in every round each thread orders two neighbours.
extern "C" __global__ void sort_segments(const int *offsets, const unsigned *keys, const int *values,
                                         unsigned *sorted_keys, int *sorted_values)
{
    __shared__ unsigned key[LONGEST];
    __shared__ int value[LONGEST];
    int tid = threadIdx.x;
    int begin = offsets[blockIdx.x], length = offsets[blockIdx.x + 1] - begin;
    for (int i = tid; i < length; i += blockDim.x) {
        key[i] = keys[begin + i];
        value[i] = values[begin + i];
    }
    __syncthreads();
    for (int round = 0; round < length; round++) {
        int i = 2 * tid + round % 2;
        if (i + 1 < length && key[i] > key[i + 1]) {
            unsigned other_key = key[i];
            int other_value = value[i];
            key[i] = key[i + 1];
            value[i] = value[i + 1];
            key[i + 1] = other_key;
            value[i + 1] = other_value;
        }
        __syncthreads();
    }
    for (int i = tid; i < length; i += blockDim.x) {
        sorted_keys[begin + i] = key[i];
        sorted_values[begin + i] = value[i];
    }
}
