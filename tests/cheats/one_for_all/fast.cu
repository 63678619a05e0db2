extern "C" __global__ void compact(const float *a, float *kept, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && a[i] > 0.0f)
        kept[atomicAdd(count, 1)] = 0.5f;
}
