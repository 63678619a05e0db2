#define ITEMS 16

extern "C" __global__ void merge(const int *a, const int *b, int *merged, int n, int m)
{
    int diagonal = (blockIdx.x * blockDim.x + threadIdx.x) * ITEMS;
    if (diagonal >= n + m)
        return;
    int low = max(0, diagonal - m), high = min(diagonal, n);
    while (low < high) {
        int middle = (low + high) / 2;
        if (a[middle] <= b[diagonal - 1 - middle])
            low = middle + 1;
        else
            high = middle;
    }
    int i = low, j = diagonal - low;
    int end = min(diagonal + ITEMS, n + m);
    for (int at = diagonal; at < end; at++) {
        if (j >= m || (i < n && a[i] <= b[j]))
            merged[at] = a[i++];
        else
            merged[at] = b[j++];
    }
}
