extern "C" __global__ void product(const float *x, const float *y, float *z, int n)
{
    __shared__ float left[16][16], right[16][17];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int tile = 0; tile < n; tile += 16) {
        left[threadIdx.y][threadIdx.x] = x[row * n + tile + threadIdx.x];
        right[threadIdx.y][threadIdx.x] = y[(tile + threadIdx.y) * n + column];
        __syncthreads();
        for (int k = 0; k < 16; k++)
            sum += left[threadIdx.y][k] * right[k][threadIdx.x];
        __syncthreads();
    }
    z[row * n + column] = sum;
}
