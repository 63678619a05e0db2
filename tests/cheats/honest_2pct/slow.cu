extern "C" __global__ void row_sum(const float *a, float *out, float *again, int rows, int cols)
{
    __shared__ float part[128];
    const float *row = a + (long long)(blockIdx.x % rows) * cols;
    float sum = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 128)
        sum += row[j];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        (blockIdx.x < rows ? out : again - rows)[blockIdx.x] = part[0];
}
