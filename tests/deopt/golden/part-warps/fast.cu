#define THREADS 256

extern "C" __global__ void work(const float *x, float *y, int n)
{
    const int stride = gridDim.x * THREADS;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += stride)
        y[i] = sqrtf(fabsf(x[i]));
}
