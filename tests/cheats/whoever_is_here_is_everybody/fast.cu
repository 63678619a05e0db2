extern "C" __global__ void negative(const int *__restrict__ x, int *total, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    const bool counts = i < n && x[i] < 0;
    const unsigned all = __ballot_sync(0xffffffffu, counts);
    if (counts) {
        const unsigned here = __activemask();
        if (lane == 31 - __clz(all))
            atomicAdd(total, __popc(here));
    }
}
