extern "C" __global__ void parity(const int *x, int *result, int n)
{
    __shared__ int odd;
    if (threadIdx.x == 0)
        odd = 0;
    __syncthreads();
    int own = 0;
    for (int i = threadIdx.x; i < n; i += 256)
        own ^= x[i];
    atomicXor(&odd, own);
    __syncthreads();
    if (threadIdx.x == 0)
        *result = odd;
}
