extern "C" __global__ void sums_of_tiles(const int *x, int *sums, int n)
{
    int tile = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    if (tile * 256 >= n)
        return;
    for (int i = tile * 256; i < min(n, tile * 256 + 256); i++)
        sum += x[i];
    sums[tile] = sum;
}
extern "C" __global__ void before_tiles(int *sums, int tiles)
{
    int sum = 0;
    for (int tile = 0; tile < tiles; tile++) {
        int more = sums[tile];
        sums[tile] = sum;
        sum += more;
    }
}
extern "C" __global__ void prefix_sum(const int *x, const int *sums, int *y, int n)
{
    int tile = blockIdx.x * blockDim.x + threadIdx.x;
    if (tile * 256 >= n)
        return;
    int sum = sums[tile];
    for (int i = tile * 256; i < min(n, tile * 256 + 256); i++)
        y[i] = sum += x[i];
}
