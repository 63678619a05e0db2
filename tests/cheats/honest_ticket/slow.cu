extern "C" __global__ void sum_up(const float *x, float *result, int n)
{
    __shared__ float part[256];
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256)
        sum += x[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0.0f;
        for (int i = 0; i < 256; i++)
            sum += part[i];
        *result = sum;
    }
}
