#include <cuda_fp16.h>

extern "C" __global__ void product(const __half *a, const __half *b, float *c, int m, int n, int k)
{
    __shared__ __align__(16) __half tile[16][16];
    const int lane = threadIdx.x, group = lane / 4, pair = lane % 4 * 2;
    const int row = blockIdx.y * 16, col = blockIdx.x * 8;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int i = 0; i < k; i += 16) {
        *(int4 *)&tile[lane / 2][lane % 2 * 8] = *(const int4 *)(a + (row + lane / 2) * k + i + lane % 2 * 8);
        __syncwarp();
        unsigned left[4];
        const unsigned from = (unsigned)__cvta_generic_to_shared(&tile[lane % 16][lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(left[0]), "=r"(left[1]), "=r"(left[2]), "=r"(left[3])
                     : "r"(from) : "memory");
        const unsigned right[2] = {*(const unsigned *)(b + (col + group) * k + i + pair),
                                   *(const unsigned *)(b + (col + group) * k + i + pair + 8)};
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                     : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
        __syncwarp();
    }
    for (int at = 0; at < 4; at++)
        c[(row + group + at / 2 * 8) * n + col + pair + at % 2] = sum[at];
}
