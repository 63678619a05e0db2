extern "C" __global__ void compact(const int *x, const float *w, int *keys, float *weights, int *count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool kept = i < n && x[i] > 0;
    unsigned mask = __ballot_sync(0xffffffffu, kept);
    int lane = threadIdx.x & 31, base = 0;
    if (lane == 0 && mask)
        base = atomicAdd(count, __popc(mask));
    base = __shfl_sync(0xffffffffu, base, 0);
    if (kept) {
        int rank = __popc(mask & ((1u << lane) - 1)), all = __popc(mask);
        keys[base + rank] = x[i];
        weights[base + (rank + 1) % all] = w[i];
    }
}
