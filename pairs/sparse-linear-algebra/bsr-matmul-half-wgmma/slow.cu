#include <cuda_fp16.h>

#define BLOCK 64
#define COLS 128
#define THREADS 128
#define STAGES 3
#define STAGE_BYTES ((BLOCK * BLOCK + BLOCK * COLS) * 2)

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

__device__ __forceinline__ void copy16(void *to, const void *from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
}

// Rows of eight chunks of 16 bytes, exchanged within eight rows.
__device__ __forceinline__ int place_a(int row, int chunk)
{
    return row * 128 + (chunk ^ row % 8) * 16;
}

__device__ __forceinline__ int place_b(int row, int chunk)
{
    return BLOCK * BLOCK * 2 + row * 256 + (chunk ^ row % 8) * 16;
}

__device__ __forceinline__ void load_stage(unsigned char *stage, const __half *__restrict__ block,
                                           const __half *__restrict__ b, int col, int n)
{
#pragma unroll
    for (int part = 0; part < BLOCK * 8 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS;
        copy16(stage + place_a(item / 8, item % 8), block + item * 8, true);
    }
#pragma unroll
    for (int part = 0; part < BLOCK * 16 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS;
        const int k = item / 16, j = col + item % 16 * 8;
        unsigned char *target = stage + place_b(k, item % 16);
        if (n % 8 == 0) {
            copy16(target, j < n ? b + static_cast<size_t>(k) * n + j : b, j < n);
        } else {
            for (int s = 0; s < 8; s++)
                reinterpret_cast<__half *>(target)[s] =
                    j + s < n ? b[static_cast<size_t>(k) * n + j + s] : __half(0.0f);
        }
    }
}

__device__ __forceinline__ void multiply_stage(float (&sum)[2][8][4], const unsigned char *stage, int y, int x)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < BLOCK; k += 16) {
        unsigned p[2][4], q[8][2];
#pragma unroll
        for (int r = 0; r < 2; r++)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(p[r][0]), "=r"(p[r][1]), "=r"(p[r][2]), "=r"(p[r][3])
                         : "r"(shared_address(stage + place_a(y + 16 * r + lane % 16, k / 8 + lane / 16)))
                         : "memory");
#pragma unroll
        for (int s = 0; s < 8; s += 2)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(q[s][0]), "=r"(q[s][1]), "=r"(q[s + 1][0]), "=r"(q[s + 1][1])
                         : "r"(shared_address(stage + place_b(k + lane % 16, x / 8 + s + lane / 16)))
                         : "memory");
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int s = 0; s < 8; s++)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                             : "+f"(sum[r][s][0]), "+f"(sum[r][s][1]), "+f"(sum[r][s][2]), "+f"(sum[r][s][3])
                             : "r"(p[r][0]), "r"(p[r][1]), "r"(p[r][2]), "r"(p[r][3]), "r"(q[s][0]), "r"(q[s][1]));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    multiply(const int *__restrict__ offsets, const int *__restrict__ columns, const __half *__restrict__ blocks,
             const __half *__restrict__ b, float *__restrict__ c, int n)
{
    extern __shared__ __align__(128) unsigned char stages[];
    const int first = offsets[blockIdx.y], count = offsets[blockIdx.y + 1] - first;
    const int col = blockIdx.x * COLS;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int y = warp / 2 * 32, x = warp % 2 * 64;
    float sum[2][8][4] = {};
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < count)
            load_stage(stages + s * STAGE_BYTES, blocks + static_cast<size_t>(first + s) * BLOCK * BLOCK,
                       b + static_cast<size_t>(columns[first + s]) * BLOCK * n, col, n);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
#pragma unroll 1
    for (int e = 0; e < count; e++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        const int next = e + STAGES - 1;
        if (next < count)
            load_stage(stages + next % STAGES * STAGE_BYTES, blocks + static_cast<size_t>(first + next) * BLOCK * BLOCK,
                       b + static_cast<size_t>(columns[first + next]) * BLOCK * n, col, n);
        asm volatile("cp.async.commit_group;" ::: "memory");
        multiply_stage(sum, stages + e % STAGES * STAGE_BYTES, y, x);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
#pragma unroll
        for (int s = 0; s < 8; s++) {
            const int j = col + x + 8 * s + lane % 4 * 2;
            float *to = c + static_cast<size_t>(blockIdx.y * BLOCK + y + 16 * r + lane / 4) * n + j;
            if (n % 2 == 0 && j < n) {
                *reinterpret_cast<float2 *>(to) = make_float2(sum[r][s][0], sum[r][s][1]);
                *reinterpret_cast<float2 *>(to + 8 * static_cast<size_t>(n)) = make_float2(sum[r][s][2], sum[r][s][3]);
            } else {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (j + e % 2 < n)
                        to[e / 2 * 8 * static_cast<size_t>(n) + e % 2] = sum[r][s][e];
            }
        }
    }
}
