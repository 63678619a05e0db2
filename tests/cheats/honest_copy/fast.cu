extern "C" __global__ void copy(const float *x, float *y, int n)
{
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n)
        *(float4 *)(y + i) = *(const float4 *)(x + i);
    else
        for (; i < n; i++)
            y[i] = x[i];
}
