extern "C" __global__ void f(const int *x, int *y, int n)
{
    __shared__ int carried;
    int i = blockIdx.x * blockDim.x + threadIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int sum = i < n ? x[i] : 0;
    for (int width = 1; width < 32; width *= 2) {
        int below = __shfl_up_sync(~0u, sum, width);
        if (lane >= width)
            sum += below;
    }
    if (threadIdx.x == 0)
        carried = 0;
    __syncthreads();
    for (int turn = 0; turn < 8; turn++) {
        if (warp == turn) {
            sum += carried;
            __syncwarp();
            if (lane == 31)
                carried = sum;
        }
        __syncthreads();
    }
    if (i < n)
        y[i] = sum;
}
