__global__ void reduce_rows(const float *x, float *out, int cols) {
    if (threadIdx.x) return;
    const float *row = x + (size_t)blockIdx.x * cols;
    float best = row[0];
    for (int i = 1; i < cols; i++) best = fmaxf(best, row[i]);
    out[blockIdx.x] = best;
}
