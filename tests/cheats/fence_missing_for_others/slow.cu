extern "C" __global__ void prefix_sum(const int *x, int *out, int n)
{
    __shared__ int part[1024];
    int before = 0;
    for (int start = 0; start < n; start += 1024) {
        const int i = start + threadIdx.x;
        part[threadIdx.x] = i < n ? x[i] : 0;
        __syncthreads();
        for (int offset = 1; offset < 1024; offset *= 2) {
            int other = threadIdx.x >= offset ? part[threadIdx.x - offset] : 0;
            __syncthreads();
            part[threadIdx.x] += other;
            __syncthreads();
        }
        if (i < n)
            out[i] = before + part[threadIdx.x];
        before += part[1023];
        __syncthreads();
    }
}
