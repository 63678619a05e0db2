extern "C" __global__ void sum_up(const int *x, int *result, int n)
{
    __shared__ int part[256];
    volatile int *last = part;
    const int t = threadIdx.x;
    int sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i];
    part[t] = sum;
    __syncthreads();
    for (int width = 128; width > 16; width /= 2) {
        if (t < width)
            part[t] += part[t + width];
        __syncthreads();
    }
    if (t < 16) {
        last[t] += last[t + 16];
        last[t] += last[t + 8];
        last[t] += last[t + 4];
        last[t] += last[t + 2];
        last[t] += last[t + 1];
    }
    if (t == 0)
        atomicAdd(result, part[0]);
}
