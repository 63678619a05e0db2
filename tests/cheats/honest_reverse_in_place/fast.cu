extern "C" __global__ void reverse(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 2)
        return;
    float first = x[i];
    x[i] = x[n - 1 - i];
    x[n - 1 - i] = first;
}
