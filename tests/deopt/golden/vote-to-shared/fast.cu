extern "C" __global__ void work(const float *x, int *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned over = __ballot_sync(0xffffffffu, i < n && x[i] > 0.5f);
    const int some = __any_sync(0xffffffffu, i == n / 2), every = __all_sync(0xffffffffu, i < n);
    if (i < n)
        y[i] = __popc(over) * 4 + (some != 0) * 2 + (every != 0);
}
