__global__ void sum_rows(const unsigned char *x, int *out, int cols) {
    const unsigned char *row = x + (size_t)blockIdx.x * cols;
    int sum = 0;
    for (int i = threadIdx.x; i < cols; i += 32) sum += row[i];
    for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x == 0) out[blockIdx.x] = sum < 65535 ? sum : 65535;
}
