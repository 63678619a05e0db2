static __device__ unsigned take(unsigned *ticket)
{
    unsigned taken;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(taken) : "l"(ticket) : "memory");
    return taken;
}

extern "C" __global__ void sum_up(const int *x, int *result, int *sums, unsigned *ticket, int n)
{
    __shared__ int part[8];
    __shared__ bool last;
    const int t = threadIdx.x;
    int sum = 0;
    for (int i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256)
        sum += x[i];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (t % 32 == 0)
        part[t / 32] = sum;
    __syncthreads();
    if (t == 0) {
        sum = 0;
        for (int i = 0; i < 8; i++)
            sum += part[i];
        sums[blockIdx.x] = sum;
        last = take(ticket) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return;
    sum = 0;
    for (int i = t; i < gridDim.x; i += 256)
        sum += __ldcg(sums + i);
    __syncthreads();
    if (t == 0)
        part[0] = 0;
    __syncthreads();
    atomicAdd(part, sum);
    __syncthreads();
    if (t == 0)
        *result = part[0];
}
