#include <cuda.h>
#include <cuda_fp16.h>

#define BLOCK 64
#define CONSUMERS 2
#define THREADS (128 * CONSUMERS + 32)
#define STAGES 5
#define BOX_BYTES (BLOCK * BLOCK * 2)
#define STAGE_BYTES (4 * BOX_BYTES)
#define WARP_BYTES (16 * BLOCK * 4)
#define ALL 0xffffffffu

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

__device__ __forceinline__ void expect(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// 64 rows of 128 bytes.
__device__ __forceinline__ void load_box(unsigned to, const CUtensorMap *map, int x, int y, unsigned barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

// Rows of 128 bytes, eight rows to a swizzled block of 1024.
__device__ __forceinline__ unsigned long long describe(unsigned tile)
{
    return 1ull << 62 | 64ull << 32 | 1ull << 16 | (tile & 0x3ffff) >> 4;
}

__device__ __forceinline__ void add_product(float (&d)[32], unsigned long long a, unsigned long long b, int adds)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, adds, 1, 1, 0, 0;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
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

// Rows that do not begin at multiples of 16 bytes have no tensor map: one element a thread.
__device__ void any_depth(const int *__restrict__ offsets, const int *__restrict__ columns,
                          const __half *__restrict__ a, const __half *__restrict__ b, float *__restrict__ out, int nnz,
                          int k)
{
    int row = 0;
    for (int e = blockIdx.x; e < nnz; e += gridDim.x) {
        while (offsets[row + 1] <= e)
            row++;
        for (int i = threadIdx.x; i < BLOCK * BLOCK; i += THREADS) {
            const __half *x = a + static_cast<size_t>(row * BLOCK + i / BLOCK) * k;
            const __half *y = b + static_cast<size_t>(columns[e] * BLOCK + i % BLOCK) * k;
            float sum = 0.0f;
            for (int j = 0; j < k; j++)
                sum = fmaf(__half2float(x[j]), __half2float(y[j]), sum);
            out[static_cast<size_t>(e) * BLOCK * BLOCK + i] = sum;
        }
    }
}

// How many of the warp's rows end at or before entry e, which is the row that has it; and before the entry behind.
__device__ __forceinline__ int2 rows_of(const int *__restrict__ offsets, int rows, int e)
{
    int one = 0, two = 0;
#pragma unroll 4
    for (int i = threadIdx.x % 32; i < rows; i += 32) {
        const int end = offsets[i + 1];
        one += end <= e;
        two += end <= e + 1;
    }
    return make_int2(__reduce_add_sync(ALL, one), __reduce_add_sync(ALL, two));
}

// Where a warp's results wait: rows of 256 bytes, chunks of 16 exchanged in pairs within four rows.
__device__ __forceinline__ unsigned char *slot(unsigned char *own, int row, int chunk)
{
    return own + row * 256 + (chunk ^ row % 4 * 2) * 16;
}

// Sixteen rows of a block of results, which lie side by side: through shared memory, whole lines an instruction.
__device__ __forceinline__ void store_rows(unsigned char *own, const float (&sum)[32], float *__restrict__ out)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int half = 0; half < 2; half++)
            *reinterpret_cast<float2 *>(slot(own, lane / 4 + 8 * half, 2 * i + lane % 4 / 2) + lane % 2 * 8) =
                make_float2(sum[4 * i + 2 * half], sum[4 * i + 2 * half + 1]);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
        const float4 four = *reinterpret_cast<const float4 *>(slot(own, i + lane / 16, lane % 16));
        __stcs(reinterpret_cast<float4 *>(out) + i * 16 + lane, four);
    }
    __syncwarp();
}

// Two entries that follow one another are a unit, so that all multiprocessors have as many; mostly they share 64 rows
// of a. Resident blocks: a warp loads the stages of unit after unit into one ring, and two warp groups take units in
// turns, so that one stores while the other multiplies.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    multiply(const __grid_constant__ CUtensorMap left, const __grid_constant__ CUtensorMap right,
             const int *__restrict__ offsets, const int *__restrict__ columns, const __half *__restrict__ a,
             const __half *__restrict__ b, float *__restrict__ out, int rows, int nnz, int k)
{
    if (k % 8 != 0) {
        any_depth(offsets, columns, a, b, out, nnz, k);
        return;
    }
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES], turn[CONSUMERS];
    unsigned char *aligned = room + (1023 & (0u - shared_address(room)));
    const unsigned stages = shared_address(aligned);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4;
    const int units = (nnz + 1) / 2, steps = (k + BLOCK - 1) / BLOCK;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            init_barrier(shared_address(&full[s]), 1);
            init_barrier(shared_address(&empty[s]), 4);
        }
        for (int g = 0; g < CONSUMERS; g++)
            init_barrier(shared_address(&turn[g]), 4);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (group == CONSUMERS) {
        int at = 0;
        for (int unit = blockIdx.x; unit < units; unit += gridDim.x) {
            const int e = 2 * unit;
            const bool two = e + 1 < nnz;
            const int one_column = columns[e] * BLOCK, two_column = two ? columns[e + 1] * BLOCK : 0;
            const int2 row = rows_of(offsets, rows, e);
            const bool apart = two && row.y != row.x;
            for (int step = 0; lane == 0 && step < steps; step++, at++) {
                const unsigned stage = stages + at % STAGES * STAGE_BYTES, barrier = shared_address(&full[at % STAGES]);
                wait(shared_address(&empty[at % STAGES]), (at / STAGES + 1) % 2);
                expect(barrier, (2 + two + apart) * BOX_BYTES);
                load_box(stage, &left, step * BLOCK, row.x * BLOCK, barrier);
                load_box(stage + BOX_BYTES, &right, step * BLOCK, one_column, barrier);
                if (two)
                    load_box(stage + 2 * BOX_BYTES, &right, step * BLOCK, two_column, barrier);
                if (apart)
                    load_box(stage + 3 * BOX_BYTES, &left, step * BLOCK, row.y * BLOCK, barrier);
            }
            __syncwarp();
        }
        return;
    }
    unsigned char *own = aligned + STAGES * STAGE_BYTES + warp * WARP_BYTES;
    int at = group * steps;
    int round = 0;
    for (int unit = blockIdx.x + group * gridDim.x; unit < units; unit += CONSUMERS * gridDim.x, round++) {
        const int e = 2 * unit;
        const bool two = e + 1 < nnz;
        const int2 row = rows_of(offsets, rows, e);
        const unsigned second = two && row.y != row.x ? 3 * BOX_BYTES : 0;
        // A stage's parity tells only two of its uses apart: the other group has seen all of its own full before this
        // one looks for one.
        if (group + round > 0)
            wait(shared_address(&turn[group]), (group + round + 1) % 2);
        float sum[2][32];
        for (int step = 0; step < steps; step++, at++) {
            const unsigned stage = stages + at % STAGES * STAGE_BYTES;
            wait(shared_address(&full[at % STAGES]), at / STAGES % 2);
            __syncwarp();
            if (lane == 0 && step + 1 == steps)
                arrive(shared_address(&turn[1 - group]));
            begin_products();
            // Without a second entry the first one's box stands for it, and what is made of it is not stored.
#pragma unroll
            for (int i = 0; i < BLOCK * 2; i += 32) {
                add_product(sum[0], describe(stage + i), describe(stage + BOX_BYTES + i), step + i);
                add_product(sum[1], describe(stage + second + i), describe(stage + (two ? 2 : 1) * BOX_BYTES + i),
                            step + i);
            }
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
        at += (CONSUMERS - 1) * steps;
        float *to = out + static_cast<size_t>(e) * BLOCK * BLOCK + warp % 4 * 16 * BLOCK;
        store_rows(own, sum[0], to);
        if (two)
            store_rows(own, sum[1], to + BLOCK * BLOCK);
    }
}
