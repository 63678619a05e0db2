__global__ void top_four(const float *x, float *out, int cols) {
    if (threadIdx.x) return;
    const float *row = x + (size_t)blockIdx.x * cols;
    float best[4] = {-1e30f, -1e30f, -1e30f, -1e30f};
    for (int i = 0; i < cols; i++) {
        float value = row[i];
        for (int k = 0; k < 4; k++)
            if (value > best[k]) {
                float smaller = best[k];
                best[k] = value;
                value = smaller;
            }
    }
    for (int k = 0; k < 4; k++) out[blockIdx.x * 4 + k] = best[k];
}
