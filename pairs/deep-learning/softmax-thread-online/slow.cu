extern "C" __global__ void softmax(const float *in, float *out, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float largest = in[row * cols];
    for (int i = 1; i < cols; i++)
        largest = fmaxf(largest, in[row * cols + i]);
    float sum = 0.0f;
    for (int i = 0; i < cols; i++)
        sum += expf(in[row * cols + i] - largest);
    for (int i = 0; i < cols; i++)
        out[row * cols + i] = expf(in[row * cols + i] - largest) / sum;
}
