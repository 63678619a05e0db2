extern "C" __global__ void work(const float *x, float *y, int n)
{
    __shared__ float part[128];
    const int tid = threadIdx.x, i = blockIdx.x * blockDim.x + tid;
    part[tid] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (tid > 0)
        atomicAdd(&part[0], part[tid]);
    __syncthreads();
    if (tid == 0)
        y[blockIdx.x] = part[0];
}
