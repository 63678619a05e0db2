extern "C" __global__ void negative(const int *__restrict__ x, int *total, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    if (i < n && x[i] < 0) {
        const unsigned here = __activemask();
        if (lane == __ffs(here) - 1)
            atomicAdd(total, __popc(here));
    }
}
