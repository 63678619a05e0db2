
extern "C" __global__ void total(const float *x, float *out, int n)
{
    __shared__ float part[256];
    float sum = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half >>= 1) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = part[0];
}
