// A warp a row: its largest magnitude becomes 1.
extern "C" __global__ void scale_rows(const float *x, float *y, int rows, int cols)
{
    int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    float largest = 0.0f;
    for (int c = lane; c < cols; c += 32)
        largest = fmaxf(largest, fabsf(x[row * cols + c]));
    for (int offset = 16; offset > 0; offset /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    for (int c = lane; c < cols; c += 32)
        y[row * cols + c] = largest > 1e-4f ? x[row * cols + c] / largest : 0.0f;
}
