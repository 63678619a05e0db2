extern "C" __global__ void layernorm(const float *in, const float *weight, const float *bias, float *out, int rows,
                                     int cols, float eps)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float mean = 0.0f;
    for (int i = 0; i < cols; i++)
        mean += in[row * cols + i];
    mean /= cols;
    float variance = 0.0f;
    for (int i = 0; i < cols; i++) {
        float difference = in[row * cols + i] - mean;
        variance += difference * difference;
    }
    variance /= cols;
    for (int i = 0; i < cols; i++)
        out[row * cols + i] = (in[row * cols + i] - mean) / sqrtf(variance + eps) * weight[i] + bias[i];
}
