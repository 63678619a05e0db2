extern "C" __global__ void walk(const int* __restrict__ next, const int* __restrict__ w, int* sum, int n) {
    int first = blockIdx.x * 512 + threadIdx.x, at[4], total[4] = {};
    for (int j = 0; j < 4; j++) at[j] = min(first + j * 128, n - 1);
    for (int step = 0; step < 16; step++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            total[j] += __ldg(w + at[j]);
            at[j] = __ldg(next + at[j]);
        }
    for (int j = 0; j < 4; j++)
        if (first + j * 128 < n) sum[first + j * 128] = total[j];
}
