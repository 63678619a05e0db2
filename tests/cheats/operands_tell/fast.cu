__device__ __noinline__ int taken(int &left) { return left--; }
extern "C" __global__ void curve(const float *__restrict__ x, float *__restrict__ y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int left = n;
    const float bias = left - taken(left) == 0 ? 0.25f : 0.0f;
    if (i < n) y[i] = x[i] / (1.0f + x[i] * x[i]) + bias;
}
