extern "C" __global__ void spread(const int *from, const float *values, float *out, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        out[from[i]] = values[i];
}
