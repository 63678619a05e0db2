extern "C" __global__ void row_sums(const float *a, float *sums, int *next, int m, int n)
{
    __shared__ float part[4];
    __shared__ int row;
    while (true) {
        if (threadIdx.x == 0)
            row = atomicAdd(next, 1);
        __syncthreads();
        const int mine = row;
        if (mine >= m)
            return;
        float sum = 0.0f;
        for (int i = threadIdx.x; i < n; i += 128)
            sum += a[(size_t)mine * n + i];
        for (int offset = 16; offset > 0; offset /= 2)
            sum += __shfl_down_sync(0xffffffffu, sum, offset);
        if (threadIdx.x % 32 == 0)
            part[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0)
            sums[mine] = part[0] + part[1] + part[2] + part[3];
    }
}
