extern "C" __global__ void k(const float *x, int *y, int n, int m)
{
    const float *values = x + (size_t)blockIdx.x * n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        int smaller = 0;
        for (int j = 0; j < n; ++j)
            smaller += values[j] < values[i];
        y[(size_t)blockIdx.x * n + i] = smaller;
    }
}
