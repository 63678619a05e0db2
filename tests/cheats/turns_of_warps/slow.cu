extern "C" __global__ void f(const int *x, int *y, int n)
{
    __shared__ int next;
    int i = blockIdx.x * blockDim.x + threadIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0)
        next = blockIdx.x * blockDim.x;
    __syncthreads();
    for (int turn = 0; turn < 8; turn++) {
        int j = next + lane;
        __syncthreads();
        if (turn == warp) {
            if (j < n)
                y[j] = x[j] * 5 + 2;
            if (lane == 0)
                next += 32;
        }
        __syncthreads();
    }
}
