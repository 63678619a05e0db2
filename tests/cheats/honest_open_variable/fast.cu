extern "C" __global__ void axpy(const float *a, const float *b, float *out, int n)
{
    __shared__ float puts[256];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool open = i < n;
    float fread = open ? a[i] : 0.0f, fwrite = open ? b[i] : 0.0f;
    puts[threadIdx.x] = fread + 2.0f * fwrite;
    if (open)
        out[i] = puts[threadIdx.x];
}
