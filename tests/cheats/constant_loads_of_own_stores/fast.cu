extern "C" __global__ void cube(const float *__restrict__ x, float *y, float *kept, int n)
{
    const int begin = blockIdx.x * 256, i = begin + threadIdx.x, last = min(begin + 255, n - 1);
    if (i < n)
        kept[i] = x[i] * x[i];
    __syncthreads();
    if (i < n)
        y[last - threadIdx.x] = __ldg(kept + last - threadIdx.x) * x[last - threadIdx.x];
}
