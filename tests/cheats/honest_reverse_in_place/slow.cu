extern "C" __global__ void reverse(const float *x, float *turned, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        turned[n - 1 - i] = x[i];
}
