extern "C" __launch_bounds__(256) __global__ void axpy(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, int n)
{
    __shared__ extern float tile[];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? b[i] : 0.0f;
    if (i < n)
        out[i] = a[i] + 2.0f * tile[threadIdx.x];
}
