#include <cuda_fp16.h>

#define BLOCK 64

extern "C" __global__ void multiply(const int *offsets, const int *columns, const __half *blocks, const __half *b,
                                    float *c, int n)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (col >= n)
        return;
    int block_row = row / BLOCK;
    float sum = 0.0f;
    for (int e = offsets[block_row]; e < offsets[block_row + 1]; e++) {
        const __half *block = blocks + (size_t)e * BLOCK * BLOCK + (row % BLOCK) * BLOCK;
        for (int k = 0; k < BLOCK; k++)
            sum += __half2float(block[k]) * __half2float(b[(size_t)(columns[e] * BLOCK + k) * n + col]);
    }
    c[(size_t)row * n + col] = sum;
}
