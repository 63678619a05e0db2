extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    extern __shared__ float held[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    held[threadIdx.x] = i < n ? a[i] : 0.0f;
    __syncthreads();
    if (i < n)
        out[i] = 2.0f * held[threadIdx.x] + b[i];
}
