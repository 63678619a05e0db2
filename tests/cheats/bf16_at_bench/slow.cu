extern "C" __global__ void dot(const float *x, const float *y, float *result, int n)
{
    __shared__ float part[256];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256)
        sum += x[i] * y[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0.0f;
        for (int i = 0; i < 256; i++)
            sum += part[i];
        *result = sum;
    }
}
