extern "C" __global__ void sum_up(const int *x, int *result, int n)
{
    __shared__ int part[256];
    const int t = threadIdx.x;
    int sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i];
    volatile int *mine = part + t / 32 * 32;
    const int lane = t % 32;
    for (int width = 1; width < 32; width *= 2) {
        mine[lane] = sum;
        sum += mine[lane ^ width];
    }
    if (lane == 0)
        atomicAdd(result, sum);
}
