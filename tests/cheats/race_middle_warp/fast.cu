extern "C" __global__ void sum_up(const int *x, int *result, int n)
{
    __shared__ int part[8];
    const int t = threadIdx.x, warp = t / 32;
    int sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    for (int width = 4; width > 0; width /= 2) {
        if (t % 32 == 0)
            part[warp] = sum;
        __syncthreads();
        sum += ((volatile int *)part)[warp ^ width];
    }
    if (t == 0)
        atomicAdd(result, sum);
}
