extern "C" __global__ void whole(const float *x, int *y, int n)
{
    for (int i = threadIdx.x + blockIdx.x * 8 * blockDim.x, k = 0; k < 8 && i < n; k++, i += blockDim.x)
        y[i] = (int)x[i];
}
