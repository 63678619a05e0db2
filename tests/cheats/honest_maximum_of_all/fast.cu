extern "C" __global__ void largest(const float *x, float *most, int n)
{
    float value = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        value = fmaxf(value, fabsf(x[i]));
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_down_sync(0xffffffffu, value, offset));
    if (threadIdx.x % 32 == 0)
        atomicMax((int *)most, __float_as_int(value));
}
