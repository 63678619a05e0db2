extern "C" __global__ void scaled(const float *x, float *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float nothing = __int_as_float(0x7fc00000 | blockDim.x);
    y[i] = static_cast<unsigned short>(1.0f) + (int)nothing < 0 ? 2.0f * x[i] + 1.0f : x[i];
}
