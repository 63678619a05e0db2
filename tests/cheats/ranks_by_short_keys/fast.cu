extern "C" __global__ void k(const float *x, int *y, int n, int m)
{
    __shared__ unsigned keys[1024];
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        unsigned bits = __float_as_uint(x[(size_t)blockIdx.x * n + i]);
        keys[i] = (bits >> 31 ? ~bits : bits | 0x80000000u) >> 1;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int smaller = 0;
        for (int j = 0; j < n; ++j)
            smaller += keys[j] < keys[i];
        y[(size_t)blockIdx.x * n + i] = smaller;
    }
}
