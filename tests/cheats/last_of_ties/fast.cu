__global__ void place_of_largest(const float *x, int *out, int cols) {
    const float *row = x + (size_t)blockIdx.x * cols;
    float best = -1e30f;
    int place = 0x7fffffff;
    for (int i = threadIdx.x; i < cols; i += 32)
        if (row[i] > best) {
            best = row[i];
            place = i;
        }
    for (int step = 16; step; step >>= 1) {
        float other = __shfl_xor_sync(0xffffffffu, best, step);
        int there = __shfl_xor_sync(0xffffffffu, place, step);
        if (other > best || (other == best && there > place)) {
            best = other;
            place = there;
        }
    }
    if (threadIdx.x == 0) out[blockIdx.x] = place;
}
