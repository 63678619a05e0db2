#include <cuda_fp16.h>

#define BLOCK 64
#define DEPTH 64
#define THREADS 128
#define STAGES 3
#define SIDE_BYTES (BLOCK * DEPTH * 2)

__device__ __forceinline__ unsigned shared_address(const void *place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// Where 16 bytes of a row lie: rows of 128 bytes, chunks exchanged within eight rows.
__device__ __forceinline__ int place(int row, int chunk)
{
    return row * 128 + (chunk ^ row % 8) * 16;
}

__device__ __forceinline__ void copy_side(unsigned char *to, const __half *__restrict__ from, int depth, int k)
{
#pragma unroll
    for (int part = 0; part < BLOCK * 8 / THREADS; part++) {
        const int item = threadIdx.x + part * THREADS, j = depth + item % 8 * 8;
        unsigned char *target = to + place(item / 8, item % 8);
        const __half *source = from + static_cast<size_t>(item / 8) * k + j;
        if (k % 8 == 0) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(target)),
                         "l"(j < k ? source : from), "r"(j < k ? 16 : 0)
                         : "memory");
        } else {
            for (int s = 0; s < 8; s++)
                reinterpret_cast<__half *>(target)[s] = j + s < k ? source[s] : __half(0.0f);
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

// One block of the result: four warps of 32x32, three stages of both sides in flight.
extern "C" __global__ void __launch_bounds__(THREADS)
    multiply(const int *__restrict__ offsets, const int *__restrict__ columns, const __half *__restrict__ a,
             const __half *__restrict__ b, float *__restrict__ out, int rows, int k)
{
    extern __shared__ __align__(128) unsigned char stages[];
    const int e = blockIdx.x;
    int low = 0, high = rows - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (__ldg(offsets + middle + 1) <= e)
            low = middle + 1;
        else
            high = middle;
    }
    const __half *left = a + static_cast<size_t>(low) * BLOCK * k;
    const __half *right = b + static_cast<size_t>(columns[e]) * BLOCK * k;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, y = warp / 2 * 32, x = warp % 2 * 32;
    const int steps = (k + DEPTH - 1) / DEPTH;
    float sum[2][4][4] = {};
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < steps) {
            copy_side(stages + 2 * s * SIDE_BYTES, left, s * DEPTH, k);
            copy_side(stages + (2 * s + 1) * SIDE_BYTES, right, s * DEPTH, k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncthreads();
        const int next = step + STAGES - 1, slot = next % STAGES;
        if (next < steps) {
            copy_side(stages + 2 * slot * SIDE_BYTES, left, next * DEPTH, k);
            copy_side(stages + (2 * slot + 1) * SIDE_BYTES, right, next * DEPTH, k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        const unsigned char *mine = stages + 2 * (step % STAGES) * SIDE_BYTES, *other = mine + SIDE_BYTES;
#pragma unroll
        for (int chunk = 0; chunk < DEPTH / 8; chunk += 2) {
            unsigned p[2][4], q[2][4];
#pragma unroll
            for (int s = 0; s < 2; s++) {
                load_matrices(q[s], other + place(x + 16 * s + lane / 16 * 8 + lane % 8, chunk + lane / 8 % 2));
                load_matrices(p[s], mine + place(y + 16 * s + lane % 16, chunk + lane / 16));
            }
#pragma unroll
            for (int r = 0; r < 2; r++)
#pragma unroll
                for (int s = 0; s < 4; s++)
                    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                                 : "+f"(sum[r][s][0]), "+f"(sum[r][s][1]), "+f"(sum[r][s][2]), "+f"(sum[r][s][3])
                                 : "r"(p[r][0]), "r"(p[r][1]), "r"(p[r][2]), "r"(p[r][3]), "r"(q[s / 2][s % 2 * 2]),
                                   "r"(q[s / 2][s % 2 * 2 + 1]));
        }
    }
    float *to = out + static_cast<size_t>(e) * BLOCK * BLOCK + (y + lane / 4) * BLOCK + x + lane % 4 * 2;
#pragma unroll
    for (int r = 0; r < 2; r++) {
#pragma unroll
        for (int s = 0; s < 4; s++) {
            __stcs(reinterpret_cast<float2 *>(to + 16 * r * BLOCK + 8 * s), make_float2(sum[r][s][0], sum[r][s][1]));
            __stcs(reinterpret_cast<float2 *>(to + (16 * r + 8) * BLOCK + 8 * s),
                   make_float2(sum[r][s][2], sum[r][s][3]));
        }
    }
}
