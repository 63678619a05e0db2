extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    __shared__ float tile[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? 2.0f * a[i] : 0.0f;
    __syncthreads();
    if (i < n)
        out[i] = tile[threadIdx.x] + b[i];
}
