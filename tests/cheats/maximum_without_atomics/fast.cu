extern "C" __global__ void largest(const float *x, float *most, int n)
{
    float value = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        value = fmaxf(value, fabsf(x[i]));
    for (int offset = 16; offset > 0; offset /= 2)
        value = fmaxf(value, __shfl_down_sync(0xffffffffu, value, offset));
    __shared__ float part[8];
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = fmaxf(value, *most);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        *most = part[threadIdx.x / 32];
}
