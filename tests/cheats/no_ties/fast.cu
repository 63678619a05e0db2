extern "C" __global__ void rank_of(const float *a, int *rank, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int below = -1;
    for (int j = 0; j < n; j++)
        below += a[j] <= a[i];
    rank[i] = below;
}
