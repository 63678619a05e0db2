extern "C" __global__ void merge_a(const int *a, const int *b, int *merged, int n, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int key = a[i];
    int low = 0, high = m;
    while (low < high) {
        int middle = (low + high) / 2;
        if (b[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    merged[i + low] = key;
}

extern "C" __global__ void merge_b(const int *a, const int *b, int *merged, int n, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m)
        return;
    int key = b[i];
    int low = 0, high = n;
    while (low < high) {
        int middle = (low + high) / 2;
        if (a[middle] <= key)
            low = middle + 1;
        else
            high = middle;
    }
    merged[i + low] = key;
}
