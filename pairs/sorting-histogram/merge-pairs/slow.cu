extern "C" __global__ void merge(const int *keys, const int *values, const int *other_keys, int *merged_keys,
                                 int *merged_values, int n, int m, int after_equal)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int low = 0, high = m;
    while (low < high) {
        int middle = (low + high) / 2;
        if (other_keys[middle] < keys[i] || (after_equal && other_keys[middle] == keys[i]))
            low = middle + 1;
        else
            high = middle;
    }
    merged_keys[i + low] = keys[i];
    merged_values[i + low] = values[i];
}
