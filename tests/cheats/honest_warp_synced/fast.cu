extern "C" __global__ void sum_up(const int *x, int *result, int n)
{
    __shared__ int part[256];
    const int t = threadIdx.x, lane = t % 32;
    int sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i];
    int *mine = part + t / 32 * 32;
    mine[lane] = sum;
    __syncwarp();
    for (int width = 16; width > 0; width /= 2) {
        const int other = lane < width ? mine[lane + width] : 0;
        __syncwarp();
        if (lane < width)
            mine[lane] += other;
        __syncwarp();
    }
    if (lane == 0)
        atomicAdd(result, mine[0]);
}
