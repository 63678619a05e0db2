extern "C" __global__ void root(const float *a, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = __int_as_float(0x7fc00000);
}
