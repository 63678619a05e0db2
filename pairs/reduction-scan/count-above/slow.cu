extern "C" __global__ void count_above(const float *values, int *count, int n, float threshold)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && values[i] > threshold)
        atomicAdd(count, 1);
}
