extern "C" __global__ void rows(const float* x, float* y, int m, int k) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m) return;
    float sum = 0.0f;
    for (int j = 0; j < k; j++) sum += x[(size_t)row * k + j];
    y[row] = sum;
}
