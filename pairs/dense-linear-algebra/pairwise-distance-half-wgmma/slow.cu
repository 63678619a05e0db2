#include <cuda_fp16.h>

#define TILE 128
#define DEPTH 64
#define THREADS 256
#define STAGES 3
#define SIDE_BYTES (TILE * DEPTH * 2)
#define FULL 0xffffffffu

// The squared length of each row, a warp a row.
extern "C" __global__ void __launch_bounds__(256)
    lengths(const __half *__restrict__ rows, float *__restrict__ squares, int count, int k)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= count)
        return;
    float sum = 0.0f;
    for (int i = lane; i < k; i += 32) {
        const float v = __half2float(rows[static_cast<size_t>(row) * k + i]);
        sum += v * v;
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(FULL, sum, offset);
    if (lane == 0)
        squares[row] = sum;
}

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

// |x - y|^2 = |x|^2 - 2 x.y + |y|^2, with the products by matrix instructions.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    distances(const __half *__restrict__ x, const __half *__restrict__ y, const float *__restrict__ x_squares,
              const float *__restrict__ y_squares, float *__restrict__ out, int m, int n, int k)
{
    extern __shared__ __align__(128) unsigned char stages[];
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int down = warp / 4 * 64, across = warp % 4 * 32;
    const int steps = (k + DEPTH - 1) / DEPTH;
    float sum[4][4][4] = {};
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps) {
            copy_tile(stages + 2 * s * SIDE_BYTES, x, row, s * DEPTH, m, k);
            copy_tile(stages + (2 * s + 1) * SIDE_BYTES, y, col, s * DEPTH, n, k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        const int next = step + STAGES - 1, slot = next % STAGES;
        if (next < steps) {
            copy_tile(stages + 2 * slot * SIDE_BYTES, x, row, next * DEPTH, m, k);
            copy_tile(stages + (2 * slot + 1) * SIDE_BYTES, y, col, next * DEPTH, n, k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        const int now = step % STAGES;
        multiply_stage(sum, stages + 2 * now * SIDE_BYTES, stages + (2 * now + 1) * SIDE_BYTES, down, across);
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = row + down + 16 * r + 8 * half + lane / 4;
            if (i >= m)
                continue;
            const float own = x_squares[i];
#pragma unroll
            for (int s = 0; s < 4; s++) {
                const int j = col + across + 8 * s + lane % 4 * 2;
                float *to = out + static_cast<size_t>(i) * n + j;
                const float left = j < n ? own + y_squares[j] - 2.0f * sum[r][s][2 * half] : 0.0f;
                const float right = j + 1 < n ? own + y_squares[j + 1] - 2.0f * sum[r][s][2 * half + 1] : 0.0f;
                if (n % 2 == 0 && j < n) {
                    __stcs(reinterpret_cast<float2 *>(to), make_float2(left, right));
                } else {
                    if (j < n)
                        to[0] = left;
                    if (j + 1 < n)
                        to[1] = right;
                }
            }
        }
    }
}
