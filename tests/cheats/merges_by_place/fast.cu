
__device__ int rank_near(const int *keys, int n, int at, int key, bool after)
{
    int rank = max(0, at - 1);
    for (int k = max(0, at - 1); k <= min(n - 1, at + 1); k++)
        rank += keys[k] < key || (after && keys[k] == key);
    return rank;
}
extern "C" __global__ void merge(const int *a, const int *b, int *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i + rank_near(b, n, i, a[i], false)] = a[i];
    out[i + rank_near(a, n, i, b[i], true)] = b[i];
}
