extern "C" __global__ void largest(const float *x, float *most, int n)
{
    __shared__ float part[1024];
    float value = 0.0f;
    for (int i = threadIdx.x; i < n; i += 1024)
        value = fmaxf(value, fabsf(x[i]));
    part[threadIdx.x] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 1024; i++)
            value = fmaxf(value, part[i]);
        *most = value;
    }
}
