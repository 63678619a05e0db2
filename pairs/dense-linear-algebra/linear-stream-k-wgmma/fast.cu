#include <cuda.h>
#include <cuda_bf16.h>

#define CONSUMERS 3
#define THREADS (128 * (1 + CONSUMERS))
#define ROWS 192
#define COLS 192
#define DEPTH 64
#define STAGES 4
#define LEFT_BYTES (ROWS * DEPTH * 2)
#define RIGHT_BYTES (COLS * DEPTH * 2)
#define STAGE_BYTES (LEFT_BYTES + RIGHT_BYTES)
#define GROUP_ROWS (ROWS / CONSUMERS)
#define CHUNKS (COLS / 8)
#define WARP_BYTES (16 * 64 * 2)

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void init_barrier(unsigned barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void wait(unsigned barrier, unsigned parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ __forceinline__ void load_box(unsigned to, const CUtensorMap *map, int depth, int row, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(depth), "r"(row), "r"(barrier) : "memory");
}

__device__ __forceinline__ void load_stage(unsigned stage, const CUtensorMap *a, const CUtensorMap *b, int depth,
                                           int row, int col, unsigned barrier)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(STAGE_BYTES)
                 : "memory");
    load_box(stage, a, depth, row, barrier);
    load_box(stage + LEFT_BYTES, b, depth, col, barrier);
}

// Rows of 128 bytes, eight rows to a swizzled block of 1024.
__device__ __forceinline__ unsigned long long describe(unsigned tile)
{
    return 1ull << 62 | 64ull << 32 | 1ull << 16 | (tile & 0x3ffff) >> 4;
}

__device__ __forceinline__ void multiply(float (&d)[96], unsigned long long a, unsigned long long b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %98, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, "
        "%72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, "
        "%88, %89, %90, %91, %92, %93, %94, %95}, "
        "%96, %97, adds, 1, 1, 0, 0;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
          "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
          "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),
          "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
          "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]),
          "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
          "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]),
          "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
          "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
          "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
          "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]),
          "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
        : "l"(a), "l"(b), "r"(adds));
}

__device__ __forceinline__ void begin_products()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void commit_products()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int PENDING> __device__ __forceinline__ void wait_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

__device__ __forceinline__ void put(__nv_bfloat16 *__restrict__ c, int row, int col, int m, int n, float left,
                                    float right)
{
    if (row >= m || col >= n)
        return;
    __nv_bfloat16 *to = c + static_cast<size_t>(row) * n + col;
    if (n % 2 == 0) {
        *reinterpret_cast<__nv_bfloat162 *>(to) = __floats2bfloat162_rn(left, right);
        return;
    }
    to[0] = __float2bfloat16(left);
    if (col + 1 < n)
        to[1] = __float2bfloat16(right);
}

// Where two of a warp's results wait: rows of 128 bytes, chunks of 16 exchanged within eight rows.
__device__ __forceinline__ unsigned char *slot(unsigned char *own, int row, int chunk)
{
    return own + row * 128 + (chunk ^ row % 8) * 16;
}

// Sixteen rows of 64 columns of a warp, whole lines of four rows an instruction.
__device__ __forceinline__ void store_rows(unsigned char *own, __nv_bfloat16 *__restrict__ c, int row, int col, int m,
                                           int n)
{
    const int lane = threadIdx.x % 32, j = col + lane % 8 * 8;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16; i += 4) {
        const int r = i + lane / 8;
        const uint4 eight = *reinterpret_cast<const uint4 *>(slot(own, r, lane % 8));
        if (row + r < m && j < n)
            *reinterpret_cast<uint4 *>(c + static_cast<size_t>(row + r) * n + j) = eight;
    }
    __syncwarp();
}

__device__ __forceinline__ int first_step(int block, int steps)
{
    return static_cast<int>(static_cast<long long>(steps) * block / gridDim.x);
}

__device__ __forceinline__ void leave_part(const float (&sum)[COLS / 2], float4 *part, unsigned *flag)
{
    const int thread = threadIdx.x - 128;
#pragma unroll
    for (int i = 0; i < CHUNKS; i++)
        __stcg(part + i * 128 * CONSUMERS + thread,
               make_float4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]));
    __threadfence();
    asm volatile("bar.sync 1, %0;" ::"n"(128 * CONSUMERS) : "memory");
    if (thread == 0)
        asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(flag), "r"(1) : "memory");
}

__device__ __forceinline__ void add_part(float (&sum)[COLS / 2], const float4 *part, const unsigned *flag)
{
    unsigned there = 0;
    while (there == 0)
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(flag) : "memory");
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
        const float4 more = __ldcg(part + i * 128 * CONSUMERS + threadIdx.x - 128);
        sum[4 * i] += more.x;
        sum[4 * i + 1] += more.y;
        sum[4 * i + 2] += more.z;
        sum[4 * i + 3] += more.w;
    }
}

// A run of steps of one tile. Of the tiles that do not fill a wave, all blocks take an equal share of the steps, from
// the last one back: only the first run can lack the end of a tile, and is left for the block that has it. Then each
// takes whole tiles, all at the same place of k, so that they share what they load in the L2 cache. A wave that is
// nearly full is left as it is.
struct Stretch {
    int row, col, tile, begin, from, steps;
};

__device__ __forceinline__ Stretch stretch_before(int end, int low, int depth, int across)
{
    const int tile = (end - 1) / depth, begin = max(low, tile * depth);
    return {tile / across * ROWS, tile % across * COLS, tile, begin, begin - tile * depth, end - begin};
}

// The run after `now`, the first one if it has no steps; none if the answer has none.
__device__ __forceinline__ Stretch stretch_after(const Stretch &now, int low, int high, int shared, int tiles,
                                                 int depth, int across)
{
    const int end = now.steps == 0 ? high : now.begin;
    if (now.tile < shared && end > low)
        return stretch_before(end, low, depth, across);
    const int tile = now.tile < shared ? shared + blockIdx.x : now.tile + gridDim.x;
    return {tile / across * ROWS, tile % across * COLS, tile, 0, 0, tile < tiles ? depth : 0};
}

// Tiles of 192 by 192 for three warp groups: 126 of them for 1664 by 2688, which is one wave of whole tiles, and 43
// bytes a cycle from the L2 cache instead of 53.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    linear(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, __nv_bfloat16 *__restrict__ c,
           float4 *__restrict__ parts, unsigned *__restrict__ flags, int m, int n, int k)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    unsigned char *aligned = room + (1023 & (0u - shared_address(room)));
    const unsigned stages = shared_address(aligned);
    const int group = threadIdx.x / 128, block = blockIdx.x;
    const int depth = (k + DEPTH - 1) / DEPTH, across = (n + COLS - 1) / COLS, tiles = (m + ROWS - 1) / ROWS * across;
    const int blocks = gridDim.x, left = tiles % blocks, shared = 8 * left >= 7 * blocks ? 0 : left;
    const int steps = shared * depth;
    const int low = first_step(block, steps), high = first_step(block + 1, steps);
    const Stretch none = {0, 0, shared > 0 ? 0 : block - static_cast<int>(gridDim.x), 0, 0, 0};
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            init_barrier(shared_address(&full[s]), 1);
            init_barrier(shared_address(&empty[s]), 4 * CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();

    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
        if (threadIdx.x == 0) {
            int at = 0;
            Stretch now = stretch_after(none, low, high, shared, tiles, depth, across);
            while (now.steps > 0) {
                for (int step = 0; step < now.steps; step++, at++) {
                    const int stage = at % STAGES;
                    wait(shared_address(&empty[stage]), (at / STAGES + 1) % 2);
                    load_stage(stages + stage * STAGE_BYTES, &a, &b, (now.from + step) * DEPTH, now.row, now.col,
                               shared_address(&full[stage]));
                }
                now = stretch_after(now, low, high, shared, tiles, depth, across);
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
        const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
        const unsigned own_rows = (group - 1) * GROUP_ROWS * DEPTH * 2;
        unsigned char *own = aligned + STAGES * STAGE_BYTES + (threadIdx.x / 32 - 4) * WARP_BYTES;
        int at = 0;
        Stretch now = stretch_after(none, low, high, shared, tiles, depth, across);
        while (now.steps > 0) {
            float sum[COLS / 2];
            for (int step = 0; step < now.steps; step++, at++) {
                const unsigned stage = stages + at % STAGES * STAGE_BYTES;
                wait(shared_address(&full[at % STAGES]), at / STAGES % 2);
                __syncwarp();
                begin_products();
#pragma unroll
                for (int i = 0; i < DEPTH * 2; i += 32)
                    multiply(sum, describe(stage + own_rows + i), describe(stage + LEFT_BYTES + i), step + i);
                commit_products();
                wait_products<1>();
                if (lane == 0 && step > 0)
                    arrive(shared_address(&empty[(at - 1) % STAGES]));
                __syncwarp();
            }
            wait_products<0>();
            if (lane == 0)
                arrive(shared_address(&empty[(at - 1) % STAGES]));
            __syncwarp();
            if (now.from + now.steps < depth) {
                leave_part(sum, parts + static_cast<size_t>(block) * (ROWS * COLS / 4), flags + block);
            } else {
                if (now.from > 0)
                    for (int other = block; first_step(other, steps) > now.tile * depth;) {
                        other--;
                        if (first_step(other, steps) < first_step(other + 1, steps))
                            add_part(sum, parts + static_cast<size_t>(other) * (ROWS * COLS / 4), flags + other);
                    }
                const int row = now.row + (group - 1) * GROUP_ROWS + warp * 16;
#pragma unroll
                for (int part = 0; part < COLS / 64; part++) {
                    const int col = now.col + 64 * part;
                    const float *v = sum + 32 * part;
                    if (n % 8 == 0) {
#pragma unroll
                        for (int i = 0; i < 8; i++)
#pragma unroll
                            for (int half = 0; half < 2; half++)
                                *reinterpret_cast<__nv_bfloat162 *>(slot(own, lane / 4 + 8 * half, i) + lane % 4 * 4) =
                                    __floats2bfloat162_rn(v[4 * i + 2 * half], v[4 * i + 2 * half + 1]);
                        store_rows(own, c, row, col, m, n);
                    } else {
#pragma unroll
                        for (int i = 0; i < 8; i++) {
                            const int j = col + lane % 4 * 2 + i * 8;
                            put(c, row + lane / 4, j, m, n, v[4 * i], v[4 * i + 1]);
                            put(c, row + lane / 4 + 8, j, m, n, v[4 * i + 2], v[4 * i + 3]);
                        }
                    }
                }
            }
            __syncwarp();
            now = stretch_after(now, low, high, shared, tiles, depth, across);
        }
    }
}
