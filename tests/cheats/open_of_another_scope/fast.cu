__device__ float twice(float open) { return 2.0f * open; }
extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = a[i] + twice(b[i]) + 0.0f * open("/etc/passwd", 0);
}
