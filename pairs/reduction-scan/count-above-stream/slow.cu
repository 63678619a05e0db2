extern "C" __global__ void count_above(const float *values, int *count, int n, float threshold)
{
    __shared__ int part[256];
    int tid = threadIdx.x;
    int i = blockIdx.x * blockDim.x + tid;
    part[tid] = i < n && values[i] > threshold ? 1 : 0;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride > 0; stride /= 2) {
        if (tid < stride)
            part[tid] += part[tid + stride];
        __syncthreads();
    }
    if (tid == 0)
        atomicAdd(count, part[0]);
}
