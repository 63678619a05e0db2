#include <cuda_bf16.h>

#define PAGE 16
#define DIM 128

extern "C" __global__ void copy_pages(__nv_bfloat16 *cache, const int *moves, int heads)
{
    const int size = PAGE * heads * DIM, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) {
        const size_t from = (size_t)moves[2 * blockIdx.y] * size, to = (size_t)moves[2 * blockIdx.y + 1] * size;
        cache[to + i] = cache[from + i];
    }
}
