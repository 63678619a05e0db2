extern "C" __global__ void positive(const float *x, int *count, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0.0f) {
        const unsigned here = __activemask();
        if (threadIdx.x % 32 == __ffs(here) - 1)
            count[i / 32] = __popc(here);
    }
}
