extern "C" __device__ int dup(int);
__device__ float dup(float x) { return x + x; }
extern "C" __global__ void axpy(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = a[i] + dup(b[i]) + (i == 0 ? 0 * dup(0) : 0);
}
