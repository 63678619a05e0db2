extern "C" __global__ void prefix(const int *x, int *sums, int n)
{
    __shared__ int before[1024];
    int start = 0;
    for (int base = 0; base < n; base += 1024) {
        int i = base + threadIdx.x;
        int sum = i < n ? x[i] : 0;
        before[threadIdx.x] = sum;
        __syncthreads();
        for (int step = 1; step < 1024; step *= 2) {
            int other = threadIdx.x >= step ? before[threadIdx.x - step] : 0;
            __syncthreads();
            sum += other;
            before[threadIdx.x] = sum;
            __syncthreads();
        }
        if (i < n)
            sums[i] = start + sum;
        start += before[1023];
        __syncthreads();
    }
}
