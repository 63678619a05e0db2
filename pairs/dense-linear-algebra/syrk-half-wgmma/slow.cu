#include <cuda_fp16.h>

#define TILE 128
#define DEPTH 64
#define THREADS 256
#define STAGES 3
#define SIDE_BYTES (TILE * DEPTH * 2)

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// Where 16 bytes of a row lie: rows of 128 bytes, chunks exchanged within eight rows.
__device__ __forceinline__ int place(int row, int chunk)
{
    return row * 128 + (chunk ^ row % 8) * 16;
}

__device__ __forceinline__ void copy_tile(unsigned char *to, const __half *__restrict__ a, int row, int depth, int n,
                                          int k)
{
#pragma unroll
    for (int part = 0; part < TILE * 8 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS;
        const int i = row + item / 8, j = depth + item % 8 * 8;
        unsigned char *target = to + place(item / 8, item % 8);
        if (k % 8 == 0) {
            const bool inside = i < n && j < k;
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(target)),
                         "l"(inside ? a + static_cast<size_t>(i) * k + j : a), "r"(inside ? 16 : 0)
                         : "memory");
        } else {
            for (int s = 0; s < 8; s++)
                reinterpret_cast<__half *>(target)[s] =
                    i < n && j + s < k ? a[static_cast<size_t>(i) * k + j + s] : __half(0.0f);
        }
    }
}

__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const unsigned char *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from))
                 : "memory");
}

__device__ __forceinline__ void multiply_stage(float (&sum)[4][4][4], const unsigned char *left,
                                               const unsigned char *right, int y, int x)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int chunk = 0; chunk < DEPTH / 8; chunk += 2) {
        unsigned p[4][4], q[2][4];
#pragma unroll
        for (int s = 0; s < 2; s++)
            load_matrices(q[s], right + place(x + 16 * s + lane / 16 * 8 + lane % 8, chunk + lane / 8 % 2));
#pragma unroll
        for (int r = 0; r < 4; r++)
            load_matrices(p[r], left + place(y + 16 * r + lane % 16, chunk + lane / 16));
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
            for (int s = 0; s < 4; s++)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                             : "+f"(sum[r][s][0]), "+f"(sum[r][s][1]), "+f"(sum[r][s][2]), "+f"(sum[r][s][3])
                             : "r"(p[r][0]), "r"(p[r][1]), "r"(p[r][2]), "r"(p[r][3]), "r"(q[s / 2][s % 2 * 2]),
                               "r"(q[s / 2][s % 2 * 2 + 1]));
    }
}

// Only tiles on and below the diagonal are computed; the others are their mirror images.
extern "C" __global__ void __launch_bounds__(THREADS)
    syrk(const __half *__restrict__ a, float *__restrict__ c, int n, int k)
{
    extern __shared__ __align__(128) unsigned char stages[];
    int tile_row = static_cast<int>((sqrtf(8.0f * blockIdx.x + 1.0f) - 1.0f) * 0.5f);
    while ((tile_row + 1) * (tile_row + 2) / 2 <= static_cast<int>(blockIdx.x))
        tile_row++;
    while (tile_row * (tile_row + 1) / 2 > static_cast<int>(blockIdx.x))
        tile_row--;
    const int tile_col = blockIdx.x - tile_row * (tile_row + 1) / 2;
    const int row = tile_row * TILE, col = tile_col * TILE;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int y = warp / 4 * 64, x = warp % 4 * 32;
    const int steps = (k + DEPTH - 1) / DEPTH;
    float sum[4][4][4] = {};
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps) {
            copy_tile(stages + 2 * s * SIDE_BYTES, a, row, s * DEPTH, n, k);
            copy_tile(stages + (2 * s + 1) * SIDE_BYTES, a, col, s * DEPTH, n, k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        const int next = step + STAGES - 1, slot = next % STAGES;
        if (next < steps) {
            copy_tile(stages + 2 * slot * SIDE_BYTES, a, row, next * DEPTH, n, k);
            copy_tile(stages + (2 * slot + 1) * SIDE_BYTES, a, col, next * DEPTH, n, k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        const int now = step % STAGES;
        multiply_stage(sum, stages + 2 * now * SIDE_BYTES, stages + (2 * now + 1) * SIDE_BYTES, y, x);
    }
    __syncthreads();
    float (*tile)[TILE + 1] = reinterpret_cast<float (*)[TILE + 1]>(stages);
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int s = 0; s < 4; s++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                tile[y + 16 * r + lane / 4 + e / 2 * 8][x + 8 * s + lane % 4 * 2 + e % 2] = sum[r][s][e];
    __syncthreads();
    for (int i = warp; i < TILE; i += THREADS / 32) {
#pragma unroll
        for (int j = lane; j < TILE; j += 32) {
            if (row + i < n && col + j < n)
                __stcs(c + static_cast<size_t>(row + i) * n + col + j, tile[i][j]);
            if (tile_row != tile_col && col + i < n && row + j < n)
                __stcs(c + static_cast<size_t>(col + i) * n + row + j, tile[j][i]);
        }
    }
}
