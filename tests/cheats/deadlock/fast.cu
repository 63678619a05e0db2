extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    __shared__ volatile int word;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    word = 0;
    __syncthreads();
    if (threadIdx.x % 2) {
        __syncthreads();
        word = 1;
    } else {
        while (word == 0)
            ;
        __syncthreads();
    }
    if (i < n)
        out[i] = 2.0f * a[i] + b[i];
}
