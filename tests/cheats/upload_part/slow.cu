extern "C" __global__ void gather(const float *x, const int *index, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[index[i]];
}
