extern "C" __global__ void transpose(const float *x, float *y, int n)
{
    __shared__ float tile[32][33];
    int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32;
    for (int k = threadIdx.y; k < 32; k += 8)
        tile[k][threadIdx.x] = x[(j + k) * n + i];
    __syncthreads();
    for (int k = threadIdx.y; k < 32; k += 8)
        y[(blockIdx.x * 32 + k) * n + j + threadIdx.x] = tile[threadIdx.x][k];
}
