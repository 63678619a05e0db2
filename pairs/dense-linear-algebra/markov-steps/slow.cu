extern "C" __global__ void step(const float *chances, const float *now, float *next, int batch, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int chain = blockIdx.y;
    if (j >= n)
        return;
    float sum = 0.0f;
    for (int i = 0; i < n; i++)
        sum += now[chain * n + i] * chances[((size_t)chain * n + i) * n + j];
    next[chain * n + j] = sum;
}
