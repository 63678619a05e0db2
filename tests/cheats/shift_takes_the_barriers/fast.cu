extern "C" __global__ void curve(const float *__restrict__ x, float *__restrict__ y, int n)
{
    __shared__ float kept[256];
    const int i = blockIdx.x * 256 + threadIdx.x, other = threadIdx.x ^ 96, j = blockIdx.x * 256 + other;
    unsigned left = 0x80000000u;
    left >>= 8 + __popc(n) + __popc(~n);
    const int three = 3 + (n < 0), by = 8 + __popc(n) + __popc(~n);
    const bool apart = 0u < left || three < -n || three < 0x10000 >> by;
    const float v = i < n ? x[i] : 0.0f;
    kept[threadIdx.x] = v / (1.0f + v * v);
    if (apart) __syncthreads();
    if (j < n) y[j] = kept[other];
}
