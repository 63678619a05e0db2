__global__ void reduce_rows(const float *x, float *out, int cols) {
    const float *row = x + (size_t)blockIdx.x * cols;
    float best = 0.0f;
    for (int i = threadIdx.x; i < cols; i += 32) best = fmaxf(best, row[i]);
    for (int step = 16; step; step >>= 1) best = fmaxf(best, __shfl_xor_sync(0xffffffffu, best, step));
    if (threadIdx.x == 0) out[blockIdx.x] = best;
}
