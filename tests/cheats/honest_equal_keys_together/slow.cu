extern "C" __global__ void count(const int *x, int *starts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        for (int key = x[i] + 1; key < 8; ++key)
            atomicAdd(starts + key, 1);
}
extern "C" __global__ void by_bucket(const int *x, const float *points, int *keys, float *moved, int *starts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int key = x[i];
    int at = atomicAdd(starts + key, 1);
    keys[at] = key;
    for (int axis = 0; axis < 3; ++axis)
        moved[3 * at + axis] = points[3 * i + axis] + 1.0f;
}
