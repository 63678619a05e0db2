extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    __shared__ float staged[1 << 20];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    staged[threadIdx.x] = i < n ? a[i] : 0.0f;
    __syncthreads();
    if (i < n)
        out[i] = 2.0f * staged[threadIdx.x] + b[i];
}
