extern "C" __global__ void spread(const int *from, const float *values, float *out, int count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int low = 0, high = count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (from[middle] < i)
            low = middle + 1;
        else
            high = middle;
    }
    out[i] = low < count && from[low] == i ? values[low] : 0.0f;
}
