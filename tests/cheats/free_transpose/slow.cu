extern "C" __global__ void transpose(const float *a, float *out, int r, int c)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < c && y < r)
        out[x * r + y] = a[y * c + x];
}
