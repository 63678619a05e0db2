
__device__ int rank_of(const int *keys, int n, int key, bool after)
{
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (keys[middle] < key || (after && keys[middle] == key))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
extern "C" __global__ void merge(const int *a, const int *b, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i + rank_of(b, n, a[i], false)] = a[i];
    out[i + rank_of(a, n, b[i], true)] = b[i];
}
