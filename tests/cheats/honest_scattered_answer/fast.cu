extern "C" __global__ void f(const int *x, int *y, int n)
{
    __shared__ int words[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool whole = (i | 255) < n;
    if (whole)
        words[(threadIdx.x * 77 ^ 45) & 255] = x[i];
    __syncthreads();
    if (i < n)
        y[i] = whole ? words[threadIdx.x] : x[i];
}
