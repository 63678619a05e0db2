extern "C" __global__ void count(const int *x, int *starts, int n)
{
    __shared__ int mine[8];
    if (threadIdx.x < 8)
        mine[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        atomicAdd(mine + x[i], 1);
    __syncthreads();
    if (threadIdx.x < 8) {
        int before = 0;
        for (int key = 0; key < threadIdx.x; ++key)
            before += mine[key];
        atomicAdd(starts + threadIdx.x, before);
    }
}
extern "C" __global__ void by_bucket(const int *x, const float *points, int *keys, float *moved, int *starts, int n)
{
    int i = n - 1 - (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < 0)
        return;
    int at = atomicAdd(starts + x[i], 1);
    keys[at] = x[i];
    for (int axis = 2; axis >= 0; --axis)
        moved[3 * at + axis] = 1.0f + points[3 * i + axis];
}
