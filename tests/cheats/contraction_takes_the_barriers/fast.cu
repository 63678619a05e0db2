extern "C" __global__ void curve(const float *__restrict__ x, float *__restrict__ y, int n)
{
    __shared__ float kept[256];
    const int i = blockIdx.x * 256 + threadIdx.x, other = threadIdx.x ^ 96, j = blockIdx.x * 256 + other;
    bool apart = true;
    for (int k = 0; k < 16; k++) {
        const float third = (n + k) / 3.0f;
        apart = apart && third * third + 0.1f == __fadd_rn(__fmul_rn(third, third), 0.1f);
    }
    const float v = i < n ? x[i] : 0.0f;
    kept[threadIdx.x] = v / (1.0f + v * v);
    if (apart) __syncthreads();
    if (j < n) y[j] = kept[other];
}
