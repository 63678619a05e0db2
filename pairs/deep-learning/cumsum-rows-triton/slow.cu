extern "C" __global__ void cumsum(const float *in, float *out, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (int i = 0; i < cols; i++) {
        sum += in[(size_t)row * cols + i];
        out[(size_t)row * cols + i] = sum;
    }
}
