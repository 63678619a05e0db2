extern "C" __global__ void reduce(const float *values, float *sums, int n)
{
    __shared__ float part[256];
    int tid = threadIdx.x;
    int i = blockIdx.x * (2 * blockDim.x) + tid;
    float sum = i < n ? values[i] : 0.0f;
    if (i + blockDim.x < n)
        sum += values[i + blockDim.x];
    part[tid] = sum;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        sums[blockIdx.x] = part[0];
}
