#include <cuda_bf16.h>

#define WARPS 16
#define THREADS (32 * WARPS)
#define ROWS 16
#define COLS 8
#define PARTS 2
#define PART 32
#define SPAN (PARTS * PART)
#define STEP (WARPS * SPAN)
#define STEPS 8
#define PANEL (STEPS * STEP)
#define STAGES 4
#define STAGE (ROWS * 4 * PARTS)

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A lane takes 8 neighbouring features of a row at a time. Both factors take the features in the same order, so
// that no value has to change lanes.
__device__ __forceinline__ void multiply_eight(float (&sum)[4], uint4 upper, uint4 lower, uint4 x)
{
    const unsigned first[4] = {upper.x, lower.x, upper.y, lower.y}, second[4] = {upper.z, lower.z, upper.w, lower.w};
    multiply(sum, first, x.x, x.y);
    multiply(sum, second, x.z, x.w);
}

// 16 bytes to shared memory in the background, past the first-level cache; zeros where nothing is left.
__device__ __forceinline__ void copy_async(uint4 *to, const void *from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from), "r"(inside ? 16 : 0) : "memory");
}

// Where a warp's next step of weights lies: a lane copies 16 bytes of every fourth row.
struct Source {
    unsigned from;
    int tile, step, rows;
};

__device__ __forceinline__ Source source(int tile, int n, int k)
{
    const int lane = threadIdx.x % 32, row = min(tile * ROWS + lane / 8, n - 1);
    return {static_cast<unsigned>(row) * (k / 8) + (threadIdx.x / 32 * 8 + lane % 8), tile, 0, n - 1 - row};
}

// A step's weights for this warp, which alone reads them: the 128 bytes of a row lie side by side, so that memory is
// asked for whole lines; odd rows change halves, so that the reading lanes meet no bank twice.
__device__ __forceinline__ void fetch(uint4 *stage, const uint4 *w, Source &next, int n, int k)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool inside = next.tile * ROWS < n && next.step + warp * SPAN + lane % 8 * 8 < k;
    const unsigned from = inside ? next.from + next.step / 8 : 0;
    uint4 *to = stage + (lane ^ lane / 8 % 2 * 4);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const unsigned row = inside ? min(4 * i, next.rows) * (k / 8) : 0;
        copy_async(to + 32 * i, w + from + row, inside);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
    next.step += STEP;
    if (next.step >= k)
        next = source(next.tile + gridDim.x, n, k);
}

// A lane's part of the tokens in a panel: the same for all tiles, so it stays in registers.
__device__ __forceinline__ void hold(uint4 (&held)[STEPS * PARTS], const __nv_bfloat16 *x, int at, int m, int k)
{
    const __nv_bfloat16 *from = x + static_cast<size_t>(min(static_cast<int>(threadIdx.x) % 32 / 4, m - 1)) * k;
#pragma unroll
    for (int item = 0; item < STEPS * PARTS; item++) {
        const int here = at + item / PARTS * STEP + item % PARTS * PART;
        held[item] = here < k ? __ldg(reinterpret_cast<const uint4 *>(from + here)) : make_uint4(0, 0, 0, 0);
    }
}

// One block a multiprocessor, whose warps share the features of 16 rows at a time. Each warp keeps STAGES - 1 steps of
// weights under way in shared memory of its own, from one tile to the next.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    decode_linear(const __nv_bfloat16 *__restrict__ x, const uint4 *__restrict__ w,
                  __nv_bfloat16 *__restrict__ y, int m, int n, int k)
{
    extern __shared__ uint4 ring[];
    __shared__ float parts[2][WARPS][ROWS * COLS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, own = warp * SPAN + lane % 4 * 8;
    const int tiles = (n + ROWS - 1) / ROWS, steps = (k + STEP - 1) / STEP, panels = (k + PANEL - 1) / PANEL;
    uint4 *stages = ring + warp * STAGES * STAGE;
    int tile = blockIdx.x, stage = 0, before = STAGES - 1, turn = 0;
    Source next = source(tile, n, k);
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++)
        fetch(stages + s * STAGE, w, next, n, k);
    uint4 held[STEPS * PARTS];
    hold(held, x, own, m, k);
    float sum[4] = {};
    while (tile < tiles) {
        for (int panel = 0; panel < panels; panel++) {
            if (panels > 1)
                hold(held, x, panel * PANEL + own, m, k);
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                if (panel * STEPS + step >= steps)
                    break;
                uint4 p[PARTS], q[PARTS];
                asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
                __syncwarp();
                const uint4 *from = stages + stage * STAGE + lane / 4 * (4 * PARTS) + lane % 4;
#pragma unroll
                for (int part = 0; part < PARTS; part++) {
                    const int at = (part ^ lane / 4 % 2) * 4;
                    p[part] = from[at];
                    q[part] = from[at + 8 * 4 * PARTS];
                }
                // The stage that the step before has read.
                fetch(stages + before * STAGE, w, next, n, k);
                before = stage;
                stage = stage + 1 == STAGES ? 0 : stage + 1;
#pragma unroll
                for (int part = 0; part < PARTS; part++) {
                    const int item = step * PARTS + part;
                    multiply_eight(sum, p[part], q[part], held[item]);
                }
            }
        }
#pragma unroll
        for (int e = 0; e < 4; e++) {
            parts[turn][warp][(lane % 4 * 2 + e % 2) * ROWS + lane / 4 + e / 2 * 8] = sum[e];
            sum[e] = 0.0f;
        }
        __syncthreads();
        const int row = tile * ROWS + threadIdx.x % ROWS, col = threadIdx.x / ROWS;
        if (col < m && row < n) {
            float total = 0.0f;
#pragma unroll
            for (int part = 0; part < WARPS; part++)
                total += parts[turn][part][threadIdx.x];
            y[static_cast<size_t>(col) * n + row] = __float2bfloat16(total);
        }
        tile += gridDim.x;
        turn ^= 1;
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
}
