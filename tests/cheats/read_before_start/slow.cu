extern "C" __global__ void differences(const float *x, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = i > 0 ? x[i] - x[i - 1] : x[i];
}
