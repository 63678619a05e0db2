#include <cuda_fp16.h>

#define SIDE 32
#define WARPS 4
#define STAGES 3
#define BYTES (SIDE * SIDE * 2)

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// Rows of four chunks of 16 bytes; two rows fill the banks once.
__device__ __forceinline__ int place(int row, int chunk)
{
    return row * 64 + (chunk ^ row / 2 % 4) * 16;
}

__device__ __forceinline__ void load(unsigned char *stage, const __half *__restrict__ a, const __half *__restrict__ b,
                                     size_t product)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int part = 0; part < 8; part++) {
        const int item = lane + part % 4 * 32;
        const __half *from = (part < 4 ? a : b) + product * SIDE * SIDE + item * 8;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                         shared_address(stage + part / 4 * BYTES + place(item / 4, item % 4))),
                     "l"(from)
                     : "memory");
    }
}

// One warp per product, without a barrier of the block: each warp keeps two more products in flight.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    multiply(const __half *__restrict__ a, const __half *__restrict__ b, float *__restrict__ c, int batch)
{
    __shared__ __align__(128) unsigned char all[WARPS][STAGES][2 * BYTES];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int first = blockIdx.x * WARPS + warp, stride = gridDim.x * WARPS;
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (first + s * stride < batch)
            load(all[warp][s], a, b, first + s * stride);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    int slot = 0;
#pragma unroll 1
    for (int product = first; product < batch; product += stride, slot = (slot + 1) % STAGES) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncwarp();
        if (product + (STAGES - 1) * stride < batch)
            load(all[warp][(slot + STAGES - 1) % STAGES], a, b, product + (STAGES - 1) * stride);
        asm volatile("cp.async.commit_group;" ::: "memory");
        const unsigned char *left = all[warp][slot], *right = left + BYTES;
        float sum[2][4][4] = {};
#pragma unroll
        for (int k = 0; k < SIDE; k += 16) {
            unsigned p[2][4], q[4][2];
#pragma unroll
            for (int r = 0; r < 2; r++)
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(p[r][0]), "=r"(p[r][1]), "=r"(p[r][2]), "=r"(p[r][3])
                             : "r"(shared_address(left + place(16 * r + lane % 16, k / 8 + lane / 16)))
                             : "memory");
#pragma unroll
            for (int s = 0; s < 4; s += 2)
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(q[s][0]), "=r"(q[s][1]), "=r"(q[s + 1][0]), "=r"(q[s + 1][1])
                             : "r"(shared_address(right + place(k + lane % 16, s + lane / 16)))
                             : "memory");
#pragma unroll
            for (int r = 0; r < 2; r++)
#pragma unroll
                for (int s = 0; s < 4; s++)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(sum[r][s][0]), "+f"(sum[r][s][1]), "+f"(sum[r][s][2]), "+f"(sum[r][s][3])
                                 : "r"(p[r][0]), "r"(p[r][1]), "r"(p[r][2]), "r"(p[r][3]), "r"(q[s][0]), "r"(q[s][1]));
        }
        float *to = c + static_cast<size_t>(product) * SIDE * SIDE + lane / 4 * SIDE + lane % 4 * 2;
#pragma unroll
        for (int r = 0; r < 2; r++) {
#pragma unroll
            for (int s = 0; s < 4; s++) {
                __stcs(reinterpret_cast<float2 *>(to + 16 * r * SIDE + 8 * s), make_float2(sum[r][s][0], sum[r][s][1]));
                __stcs(reinterpret_cast<float2 *>(to + (16 * r + 8) * SIDE + 8 * s),
                       make_float2(sum[r][s][2], sum[r][s][3]));
            }
        }
    }
}
