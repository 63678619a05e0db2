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
    int before = __popc(mask & ((1u << lane) - 1)), all = __popc(mask);
    kept[2 * (start + before)] = x[i];
    kept[2 * (start + (before + 1) % all) + 1] = i;
}
