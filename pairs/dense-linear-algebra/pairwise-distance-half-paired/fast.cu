#include <cuda.h>
#include <cuda_fp16.h>

#define CONSUMERS 2
#define THREADS (128 * CONSUMERS + 32)
#define ROWS 128
#define COLS 128
#define DEPTH 128
#define STAGES 3
#define LEFT_BYTES (ROWS * DEPTH)
#define RIGHT_BYTES (COLS * DEPTH)
#define STAGE_BYTES (LEFT_BYTES + RIGHT_BYTES)
#define GROUP_ROWS (ROWS / CONSUMERS)

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

__device__ __forceinline__ void multiply(float (&d)[64], unsigned long long a, unsigned long long b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
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

extern "C" __global__ void __launch_bounds__(256)
    lengths(const __half *__restrict__ x, const __half *__restrict__ y, float *__restrict__ squares, int m, int n, int k)
{
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= m + n)
        return;
    const __half *from = row < m ? x + static_cast<size_t>(row) * k : y + static_cast<size_t>(row - m) * k;
    float sum = 0.0f;
    for (int i = lane; i < k; i += 32) {
        const float v = __half2float(from[i]);
        sum += v * v;
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (lane == 0)
        squares[row] = sum;
}

__device__ __forceinline__ void put(float *__restrict__ to, int col, int n, float left, float right)
{
    if (n % 2 == 0 && col < n) {
        __stcs(reinterpret_cast<float2 *>(to + col), make_float2(left, right));
        return;
    }
    if (col < n)
        to[col] = left;
    if (col + 1 < n)
        to[col + 1] = right;
}

// Rows that do not begin at multiples of 16 bytes have no tensor map: one element a thread.
__device__ void any_depth(const __half *__restrict__ x, const __half *__restrict__ y, float *__restrict__ out, int m,
                          int n, int k)
{
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < m * n; i += gridDim.x * THREADS) {
        const __half *a = x + static_cast<size_t>(i / n) * k, *b = y + static_cast<size_t>(i % n) * k;
        float sum = 0.0f;
        for (int j = 0; j < k; j++) {
            const float d = __half2float(a[j]) - __half2float(b[j]);
            sum = fmaf(d, d, sum);
        }
        out[i] = sum;
    }
}

// |x - y|^2 = |x|^2 - 2 x.y + |y|^2. A warp loads by tensor maps, two warp groups multiply by wgmma; of the two blocks on
// a multiprocessor one stores while the other multiplies.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    distances(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
              const __half *__restrict__ x, const __half *__restrict__ y, const float *__restrict__ squares,
              float *__restrict__ out, int m, int n, int k)
{
    if (k % 8 != 0) {
        any_depth(x, y, out, m, n, k);
        return;
    }
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES];
    __shared__ __align__(8) float right[COLS];
    const unsigned stages = (shared_address(room) + 1023) & ~1023u;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4;
    const int row_tiles = (m + ROWS - 1) / ROWS, row = blockIdx.x % row_tiles * ROWS, col = blockIdx.x / row_tiles * COLS;
    const int steps = (k + DEPTH / 2 - 1) / (DEPTH / 2);
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            init_barrier(shared_address(&full[s]), 1);
            init_barrier(shared_address(&empty[s]), 4 * CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    if (threadIdx.x < COLS)
        right[threadIdx.x] = col + threadIdx.x < n ? squares[m + col + threadIdx.x] : 0.0f;
    __syncthreads();
    if (group == CONSUMERS) {
        for (int step = 0; lane == 0 && step < steps; step++) {
            wait(shared_address(&empty[step % STAGES]), (step / STAGES + 1) % 2);
            load_stage(stages + step % STAGES * STAGE_BYTES, &a, &b, step * (DEPTH / 2), row, col,
                       shared_address(&full[step % STAGES]));
        }
        return;
    }
    const unsigned own_rows = group * GROUP_ROWS * DEPTH;
    // From zero and always added to: else the compiler makes the products wait for each other.
    float sum[64] = {};
    for (int step = 0; step < steps; step++) {
        const unsigned stage = stages + step % STAGES * STAGE_BYTES;
        wait(shared_address(&full[step % STAGES]), step / STAGES % 2);
        __syncwarp();
        begin_products();
#pragma unroll
        for (int i = 0; i < DEPTH; i += 32)
            multiply(sum, describe(stage + own_rows + i), describe(stage + LEFT_BYTES + i), 1);
        commit_products();
        wait_products<1>();
        if (lane == 0 && step > 0)
            arrive(shared_address(&empty[(step - 1) % STAGES]));
        __syncwarp();
    }
    wait_products<0>();
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int r = row + group * GROUP_ROWS + warp % 4 * 16 + lane / 4 + 8 * half;
        if (r >= m)
            continue;
        const float own = squares[r];
        float *to = out + static_cast<size_t>(r) * n;
#pragma unroll
        for (int i = 0; i < COLS / 8; i++) {
            const float2 other = *reinterpret_cast<const float2 *>(right + i * 8 + lane % 4 * 2);
            put(to, col + i * 8 + lane % 4 * 2, n, own + other.x - 2.0f * sum[4 * i + 2 * half],
                own + other.y - 2.0f * sum[4 * i + 2 * half + 1]);
        }
    }
}
