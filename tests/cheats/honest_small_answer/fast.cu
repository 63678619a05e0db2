extern "C" __global__ void longest_run(const int *x, int *result, int n)
{
    __shared__ int part[256];
    int best = 0;
    for (int first = threadIdx.x; first < n; first += 256) {
        if (!x[first] || (first && x[first - 1]))
            continue;
        int last = first;
        while (last < n && x[last])
            last++;
        best = max(best, last - first);
    }
    part[threadIdx.x] = best;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] = max(part[threadIdx.x], part[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *result = part[0];
}
