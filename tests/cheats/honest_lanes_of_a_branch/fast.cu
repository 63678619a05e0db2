extern "C" __global__ void positive(const float *x, int *count, int *total, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const unsigned running = __activemask();
    if (x[i] > 0.0f) {
        const unsigned here = __activemask();
        if (threadIdx.x % 32 == __ffs(here) - 1)
            atomicAdd(count + i / 32, __popc(here));
    }
    int all = __popc(__ballot_sync(running, x[i] > 0.0f));
    if (threadIdx.x % 32 == 0)
        atomicAdd(total, all);
}
