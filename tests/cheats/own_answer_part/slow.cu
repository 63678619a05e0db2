extern "C" __global__ void places(const int *lengths, int *offsets, int n)
{
    __shared__ int part[1024];
    int before = 1;
    for (int start = 0; start < n; start += 1024) {
        const int i = start + threadIdx.x;
        part[threadIdx.x] = i < n ? lengths[i] : 0;
        __syncthreads();
        for (int offset = 1; offset < 1024; offset *= 2) {
            int other = threadIdx.x >= offset ? part[threadIdx.x - offset] : 0;
            __syncthreads();
            part[threadIdx.x] += other;
            __syncthreads();
        }
        if (i < n)
            offsets[i] = before + part[threadIdx.x] - lengths[i];
        before += part[1023];
        __syncthreads();
    }
}
