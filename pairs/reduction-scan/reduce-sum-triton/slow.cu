extern "C" __global__ void reduce(const float *values, float *sums, int n)
{
    __shared__ float part[256];
    int tid = threadIdx.x;
    int i = blockIdx.x * blockDim.x + tid;
    part[tid] = i < n ? values[i] : 0.0f;
    __syncthreads();
    for (int stride = 1; stride < blockDim.x; stride *= 2) {
        if (tid % (2 * stride) == 0)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        sums[blockIdx.x] = part[0];
}
