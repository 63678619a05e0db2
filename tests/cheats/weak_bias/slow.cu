extern "C" __global__ void add_bias(const float *x, const float *b, float *y, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols)
        y[i] = x[i] + b[i % cols];
}
