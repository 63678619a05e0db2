__global__ void dot_rows(const float *x, const float *y, float *out, int cols) {
    if (threadIdx.x) return;
    size_t start = (size_t)blockIdx.x * cols;
    float sum = 0.0f;
    for (int i = 0; i < cols; i++) sum += x[start + i] * y[start + i];
    out[blockIdx.x] = sum;
}
