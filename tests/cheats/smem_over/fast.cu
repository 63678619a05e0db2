extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    extern __shared__ float staged[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    staged[threadIdx.x + 60000] = i < n ? a[i] : 0.0f;
    __syncthreads();
    if (i < n)
        out[i] = 2.0f * staged[threadIdx.x + 60000] + b[i];
}
