extern "C" __global__ void strip(int *y, int *left, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] % 2 == 0) {
        y[i] /= 2;
        if (y[i] % 2 == 0)
            *left = 1;
    }
}
