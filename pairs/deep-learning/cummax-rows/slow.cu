#include <cuda_fp16.h>

extern "C" __global__ void cummax(const half *in, half *values, int *places, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    half best = in[(size_t)row * cols];
    int place = 0;
    for (int i = 0; i < cols; i++) {
        half value = in[(size_t)row * cols + i];
        if (__half2float(value) >= __half2float(best)) {
            best = value;
            place = i;
        }
        values[(size_t)row * cols + i] = best;
        places[(size_t)row * cols + i] = place;
    }
}
