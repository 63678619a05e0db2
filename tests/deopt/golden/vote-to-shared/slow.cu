__device__ inline unsigned lane_votes(unsigned mask, int yes)
{
    __shared__ int slots[128];
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    __syncwarp(mask);
    slots[thread] = yes;
    __syncwarp(mask);
    unsigned votes = 0;
    for (int lane = 0; lane < 32; lane++)
        if ((mask >> lane & 1) != 0 && slots[(thread & ~31) + lane] != 0)
            votes |= 1u << lane;
    __syncwarp(mask);
    return votes;
}

__device__ inline int lane_any(unsigned mask, int yes)
{
    __shared__ int slots[128];
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    __syncwarp(mask);
    slots[thread] = yes;
    __syncwarp(mask);
    unsigned votes = 0;
    for (int lane = 0; lane < 32; lane++)
        if ((mask >> lane & 1) != 0 && slots[(thread & ~31) + lane] != 0)
            votes |= 1u << lane;
    __syncwarp(mask);
    return votes != 0;
}

__device__ inline int lane_all(unsigned mask, int yes)
{
    __shared__ int slots[128];
    const int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    __syncwarp(mask);
    slots[thread] = yes;
    __syncwarp(mask);
    unsigned votes = 0;
    for (int lane = 0; lane < 32; lane++)
        if ((mask >> lane & 1) != 0 && slots[(thread & ~31) + lane] != 0)
            votes |= 1u << lane;
    __syncwarp(mask);
    return votes == mask;
}

extern "C" __global__ void work(const float *x, int *y, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned over = lane_votes(0xffffffffu, i < n && x[i] > 0.5f);
    const int some = lane_any(0xffffffffu, i == n / 2), every = lane_all(0xffffffffu, i < n);
    if (i < n)
        y[i] = __popc(over) * 4 + (some != 0) * 2 + (every != 0);
}
