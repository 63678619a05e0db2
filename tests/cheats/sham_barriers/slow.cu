extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int wait = 0; wait < 200; wait++)
        __syncthreads();
    if (i < n)
        out[i] = 2.0f * a[i] + b[i];
}
