#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_bf16.h>

namespace cg = cooperative_groups;

#define CONSUMER_WARPS 8
#define THREADS (32 * CONSUMER_WARPS)
#define SPLITS 8
#define ROWS 64
#define COLS 256
#define GROUP_COLS 128
#define DEPTH 64
#define STAGES 5
#define LEFT_BYTES (ROWS * DEPTH * 2)
#define STAGE_BYTES (LEFT_BYTES + COLS * DEPTH * 2)
#define PITCH (COLS + 4)

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

// Rows of 128 bytes, eight rows to a swizzled block of 1024.
__device__ __forceinline__ unsigned long long describe(unsigned tile)
{
    return 1ull << 62 | 64ull << 32 | 1ull << 16 | (tile & 0x3ffff) >> 4;
}

__device__ __forceinline__ void multiply(float (&d)[64], unsigned long long a, unsigned long long b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, adds, 1, 1, 0, 0;\n"
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
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
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

// Each block of the cluster adds up and stores its share of the rows, reading the others' shared memory.
__device__ __forceinline__ void add_parts(cg::cluster_group cluster, float *mine, __nv_bfloat16 *__restrict__ c,
                                          int row,
                                          int col, int m, int n)
{
    constexpr int SHARE = ROWS / SPLITS;
    const int first = static_cast<int>(cluster.block_rank()) * SHARE;
#pragma unroll
    for (int item = threadIdx.x; item < SHARE * COLS / 4; item += THREADS) {
        const int i = first + item / (COLS / 4), j = item % (COLS / 4) * 4;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
        for (int part = 0; part < SPLITS; part++) {
            const float4 more = *reinterpret_cast<const float4 *>(cluster.map_shared_rank(mine, part) + i * PITCH + j);
            sum = make_float4(sum.x + more.x, sum.y + more.y, sum.z + more.z, sum.w + more.w);
        }
        put(c, row + i, col + j, m, n, sum.x, sum.y);
        put(c, row + i, col + j + 2, m, n, sum.z, sum.w);
    }
}

// A warp loads by tensor maps, two groups of four multiply: the left factor is read once for 256 columns, and 160 KiB a
// multiprocessor are on their way. A stage is given back while the next product runs.
extern "C" __global__ void __cluster_dims__(1, 1, SPLITS) __launch_bounds__(THREADS + 32, 1)
    linear(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, __nv_bfloat16 *__restrict__ c,
           int m, int n, int k)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    unsigned char *aligned = room + (1023 & (0u - shared_address(room)));
    const unsigned stages = shared_address(aligned);
    const int row = blockIdx.y * ROWS, col = blockIdx.x * COLS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int all = (k + DEPTH - 1) / DEPTH, share = (all + SPLITS - 1) / SPLITS;
    const int begin = min(static_cast<int>(blockIdx.z) * share, all), steps = min(share, all - begin);
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            init_barrier(shared_address(&full[s]), 1);
            init_barrier(shared_address(&empty[s]), CONSUMER_WARPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();

    if (warp == CONSUMER_WARPS) {
        for (int step = 0; lane == 0 && step < steps; step++) {
            const unsigned stage = stages + step % STAGES * STAGE_BYTES, barrier = shared_address(&full[step % STAGES]);
            wait(shared_address(&empty[step % STAGES]), (step / STAGES + 1) % 2);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(STAGE_BYTES)
                         : "memory");
            load_box(stage, &a, (begin + step) * DEPTH, row, barrier);
            load_box(stage + LEFT_BYTES, &b, (begin + step) * DEPTH, col, barrier);
        }
        return;
    }
    float sum[64];
#pragma unroll
    for (int i = 0; i < 64; i++)
        sum[i] = 0.0f;
    const int group = warp / 4;
    for (int step = 0; step < steps; step++) {
        const unsigned stage = stages + step % STAGES * STAGE_BYTES;
        const unsigned right = stage + LEFT_BYTES + group * (GROUP_COLS * DEPTH * 2);
        wait(shared_address(&full[step % STAGES]), step / STAGES % 2);
        __syncwarp();
        begin_products();
#pragma unroll
        for (int i = 0; i < DEPTH * 2; i += 32)
            multiply(sum, describe(stage + i), describe(right + i), 1);
        commit_products();
        wait_products<1>();
        if (lane == 0 && step > 0)
            arrive(shared_address(&empty[(step - 1) % STAGES]));
        __syncwarp();
    }
    wait_products<0>();
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
    float *mine = reinterpret_cast<float *>(aligned);
#pragma unroll
    for (int f = 0; f < GROUP_COLS / 8; f++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            *reinterpret_cast<float2 *>(mine + (warp % 4 * 16 + 8 * half + lane / 4) * PITCH + group * GROUP_COLS + 8 * f +
                                        lane % 4 * 2) =
                make_float2(sum[4 * f + 2 * half], sum[4 * f + 2 * half + 1]);
    cg::cluster_group cluster = cg::this_cluster();
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    add_parts(cluster, mine, c, row, col, m, n);
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
