extern "C" __global__ void prefix_sums(const int *x, int *out, int m, int n)
{
    const int lane = threadIdx.x, start = blockIdx.x * n;
    int before = 0;
    for (int i = 0; i < n; i += 32) {
        int sum = i + lane < n ? x[start + i + lane] : 0;
        for (int offset = 1; offset < 32; offset *= 2) {
            int other = __shfl_up_sync(0xffffffffu, sum, offset);
            sum += lane >= offset ? other : 0;
        }
        sum += before;
        if (i + lane < n)
            out[start + i + lane] = sum;
        before = __shfl_sync(0xffffffffu, sum, 31);
    }
}
