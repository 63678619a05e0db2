extern "C" __global__ void keep(const int *x, int *kept, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    bool keeps = i < n && x[i] > 0;
    unsigned mask = __ballot_sync(0xffffffffu, keeps);
    int start = 0;
    if (lane == 0 && mask)
        start = atomicAdd(count, __popc(mask));
    start = __shfl_sync(0xffffffffu, start, 0);
    if (!keeps)
        return;
    int at = start + __popc(mask & ((1u << lane) - 1));
    reinterpret_cast<int2 *>(kept)[at] = make_int2(x[i], i);
}
