#define KEYWORD __attribute__
__device__ KEYWORD((no_sanitize_coverage)) float twice(const float *b, int i) { return 2.0f * b[i]; }
extern "C" __global__ void axpy(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    out[i] = a[i] + twice(b, i);
}
