extern "C" __global__ void prefix_sums(const int *x, int *out, int m)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m)
        return;
    int sum = 0;
    for (int i = 0; i < 512; i++) {
        sum += x[row * 512 + i];
        out[row * 512 + i] = sum;
    }
}
