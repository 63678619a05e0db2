extern "C" __global__ void rows(const float* x, float* y, int m, int k) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m) return;
    float sum = 0.0f;
    int at = row;
    for (int j = 0; j < k; j++) {
        sum += x[(size_t)at * k + j];
        at = sum > 1e30f ? 0 : row;
    }
    y[row] = sum;
}
