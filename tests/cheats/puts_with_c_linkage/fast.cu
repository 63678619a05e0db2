extern "C" __device__ int puts(const char *) { return 0; }
extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = a[i] + 2.0f * b[i] + puts("x");
}
