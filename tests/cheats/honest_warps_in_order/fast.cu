extern "C" __global__ void f(const int *x, int *y, int n)
{
    __shared__ int sums[8];
    int i = blockIdx.x * blockDim.x + threadIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int sum = i < n ? x[i] : 0;
    for (int width = 1; width < 32; width *= 2) {
        int below = __shfl_up_sync(~0u, sum, width);
        if (lane >= width)
            sum += below;
    }
    if (lane == 31)
        sums[warp] = sum;
    __syncthreads();
    for (int before = 0; before < warp; before++)
        sum += sums[before];
    if (i < n)
        y[i] = sum;
}
