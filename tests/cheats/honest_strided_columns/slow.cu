extern "C" __global__ void transpose(const float *x, float *y, int n)
{
    int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
    y[i * n + j] = x[j * n + i];
}
