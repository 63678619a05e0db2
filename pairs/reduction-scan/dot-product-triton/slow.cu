extern "C" __global__ void multiply(const float *x, const float *y, float *products, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        products[i] = x[i] * y[i];
}

extern "C" __global__ void reduce(const float *values, float *sums, int n)
{
    __shared__ float part[256];
    int tid = threadIdx.x;
    int i = blockIdx.x * blockDim.x + tid;
    part[tid] = i < n ? values[i] : 0.0f;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        sums[blockIdx.x] = part[0];
}
