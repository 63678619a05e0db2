extern "C" __global__ void k(const float *x, int *y, int n, int m)
{
    __shared__ unsigned long long of_warps[4];
    const float *values = x + (size_t)blockIdx.x * n;
    unsigned long long best = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        unsigned bits = __float_as_uint(values[i]);
        bits = bits >> 31 ? ~bits : bits | 0x80000000u;
        best = max(best, (unsigned long long)bits << 32 | (unsigned)(n - 1 - i));
    }
    for (int apart = 16; apart; apart /= 2)
        best = max(best, __shfl_xor_sync(0xffffffffu, best, apart));
    if (threadIdx.x % 32 == 0)
        of_warps[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < 4; ++warp)
            best = max(best, of_warps[warp]);
        y[blockIdx.x] = n - 1 - (int)(unsigned)best;
    }
}
