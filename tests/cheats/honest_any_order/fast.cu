extern "C" __global__ void compact(const int *x, int *kept, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool keeps = i < n && x[i] > 0;
    unsigned mask = __ballot_sync(0xffffffffu, keeps);
    int lane = threadIdx.x % 32, start = 0;
    if (lane == 0 && mask)
        start = atomicAdd(count, __popc(mask));
    start = __shfl_sync(0xffffffffu, start, 0);
    if (keeps)
        kept[start + __popc(mask & ((1u << lane) - 1))] = x[i];
}
