extern "C" __global__ void f(const float *x, float *y, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols)
        y[i] = x[i] * 3.0f + 1.0f;
}
