__global__ void top_four(const float *x, float *out, int cols) {
    const float *row = x + (size_t)blockIdx.x * cols;
    float best[3];
    for (int k = 0; k < 3; k++) best[k] = -1e30f;
    for (int i = threadIdx.x; i < cols; i += 32) {
        float value = row[i];
        for (int k = 0; k < 3; k++)
            if (value > best[k]) {
                float smaller = best[k];
                best[k] = value;
                value = smaller;
            }
    }
    for (int k = 0; k < 4; k++) {
        float largest = best[0];
        for (int step = 16; step; step >>= 1)
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
        unsigned holders = __ballot_sync(0xffffffffu, best[0] == largest);
        if (threadIdx.x == __ffs(holders) - 1) {
            out[blockIdx.x * 4 + k] = largest;
            for (int j = 1; j < 3; j++) best[j - 1] = best[j];
            best[3 - 1] = -1e30f;
        }
    }
}
