#include <cuda.h>
#include <cuda_fp16.h>

#define BLOCK 64
#define CONSUMERS 2
#define THREADS (128 * CONSUMERS + 32)
#define STAGES 5
#define COLS 256
#define LEFT_BYTES (BLOCK * BLOCK * 2)
#define BOX_BYTES (BLOCK * BLOCK * 2)
#define STAGE_BYTES (LEFT_BYTES + 4 * BOX_BYTES)
#define WARP_BYTES (16 * 32 * 4)

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

// A right factor by rows of columns: eight rows to a swizzled block, the next 64 columns a box further on.
__device__ __forceinline__ unsigned long long describe_right(unsigned tile)
{
    return 1ull << 62 | 64ull << 32 | static_cast<unsigned long long>(BOX_BYTES / 16) << 16 | (tile & 0x3ffff) >> 4;
}

__device__ __forceinline__ void add_product(float (&d)[128], unsigned long long a, unsigned long long b)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, 1, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 "
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
        "%88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, "
        "%104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, "
        "%120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, adds, 1, 1, 0, 1;\n"
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
          "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
          "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]),
          "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
          "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]),
          "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
          "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),
          "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
          "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]),
          "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
        : "l"(a), "l"(b));
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

// Rows of b that do not begin at multiples of 16 bytes have no tensor map: one element a thread.
__device__ void any_width(const int *__restrict__ offsets, const int *__restrict__ columns,
                          const __half *__restrict__ blocks, const __half *__restrict__ b, float *__restrict__ c,
                          int rows, int n)
{
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < rows * BLOCK * n; i += gridDim.x * THREADS) {
        const int row = i / n, col = i % n;
        float sum = 0.0f;
        for (int e = offsets[row / BLOCK]; e < offsets[row / BLOCK + 1]; e++)
            for (int j = 0; j < BLOCK; j++)
                sum = fmaf(__half2float(blocks[(static_cast<size_t>(e) * BLOCK + row % BLOCK) * BLOCK + j]),
                           __half2float(b[(static_cast<size_t>(columns[e]) * BLOCK + j) * n + col]), sum);
        c[i] = sum;
    }
}

// Where a warp's results wait: rows of 128 bytes, chunks of 16 exchanged in pairs within four rows.
__device__ __forceinline__ unsigned char *slot(unsigned char *own, int row, int chunk)
{
    return own + row * 128 + (chunk ^ row % 4 * 2) * 16;
}

// Sixteen rows of 256 columns of a warp, 32 columns at a time: whole lines of four rows an instruction.
__device__ __forceinline__ void store_rows(unsigned char *own, const float (&sum)[128], float *__restrict__ c, int row,
                                           int col, int n)
{
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int part = 0; part < COLS / 32; part++) {
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float *v = sum + 16 * part + 4 * i + 2 * half;
                *reinterpret_cast<float2 *>(slot(own, lane / 4 + 8 * half, 2 * i + lane % 4 / 2) + lane % 2 * 8) =
                    make_float2(v[0], v[1]);
            }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 16; i += 4) {
            const int r = i + lane / 8, j = col + 32 * part + lane % 8 * 4;
            const float4 four = *reinterpret_cast<const float4 *>(slot(own, r, lane % 8));
            if (j < n)
                __stcs(reinterpret_cast<float4 *>(c + static_cast<size_t>(row + r) * n + j), four);
        }
        __syncwarp();
    }
}

// A row of blocks: where its entries begin, how many they are, and the columns of the first two.
struct Row {
    int first, count, columns[2];
};

__device__ __forceinline__ void find_entries(Row &row, const int *__restrict__ offsets, int unit, int units, int rows)
{
    if (unit >= units)
        return;
    row.first = offsets[unit % rows];
    row.count = offsets[unit % rows + 1] - row.first;
}

__device__ __forceinline__ void find_columns(Row &row, const int *__restrict__ columns)
{
    if (row.count > 0)
        row.columns[0] = columns[row.first];
    if (row.count > 1)
        row.columns[1] = columns[row.first + 1];
}

// Units are a row of blocks by 256 columns, in an order in which blocks at work at the same time share columns of b in
// the L2 cache. A warp draws them and loads their stages into one ring; two warp groups take units in turns, so that
// one stores while the other multiplies, and five stages are in flight whoever's they are.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    multiply(const __grid_constant__ CUtensorMap left, const __grid_constant__ CUtensorMap right,
             const int *__restrict__ offsets, const int *__restrict__ columns, const __half *__restrict__ blocks,
             const __half *__restrict__ b, float *__restrict__ c, int *__restrict__ ticket, int rows, int n)
{
    if (n % 8 != 0) {
        any_width(offsets, columns, blocks, b, c, rows, n);
        return;
    }
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES], empty[STAGES], given[CONSUMERS], taken[CONSUMERS];
    __shared__ __align__(8) unsigned long long order[CONSUMERS];
    __shared__ __align__(16) int4 work[CONSUMERS];
    unsigned char *aligned = room + (1023 & (0u - shared_address(room)));
    const unsigned stages = shared_address(aligned);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            init_barrier(shared_address(&full[s]), 1);
            init_barrier(shared_address(&empty[s]), 4);
        }
        for (int g = 0; g < CONSUMERS; g++) {
            init_barrier(shared_address(&given[g]), 1);
            init_barrier(shared_address(&taken[g]), 128);
            init_barrier(shared_address(&order[g]), 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (group == CONSUMERS) {
        if (lane != 0)
            return;
        // Units are drawn three ahead, their entries sought two ahead, their columns one: nothing is waited for.
        const int units = rows * ((n + COLS - 1) / COLS);
        int unit = atomicAdd(ticket, 1), second = atomicAdd(ticket, 1), third = atomicAdd(ticket, 1), at = 0;
        Row row = {}, next = {};
        find_entries(row, offsets, unit, units, rows);
        find_entries(next, offsets, second, units, rows);
        find_columns(row, columns);
        for (int turn = 0, ended = 0; ended < CONSUMERS; turn++) {
            const int g = turn % CONSUMERS, fourth = unit < units ? atomicAdd(ticket, 1) : units;
            Row last = {};
            find_entries(last, offsets, third, units, rows);
            find_columns(next, columns);
            wait(shared_address(&taken[g]), (turn / CONSUMERS + 1) % 2);
            work[g] = unit < units ? make_int4(unit % rows, unit / rows * COLS, row.count, at) : make_int4(-1, 0, 0, 0);
            arrive(shared_address(&given[g]));
            ended += unit >= units;
            int column = row.columns[0], follows = row.columns[1];
            for (int e = 0; e < row.count; e++, at++) {
                const unsigned stage = stages + at % STAGES * STAGE_BYTES, barrier = shared_address(&full[at % STAGES]);
                const int behind = e + 2 < row.count ? columns[row.first + e + 2] : 0;
                wait(shared_address(&empty[at % STAGES]), (at / STAGES + 1) % 2);
                expect(barrier, STAGE_BYTES);
                load_box(stage, &left, 0, (row.first + e) * BLOCK, barrier);
#pragma unroll
                for (int j = 0; j < 4; j++)
                    load_box(stage + LEFT_BYTES + j * BOX_BYTES, &right, unit / rows * COLS + j * 64, column * BLOCK,
                             barrier);
                column = follows;
                follows = behind;
            }
            unit = second;
            second = third;
            third = fourth;
            row = next;
            next = last;
        }
        return;
    }
    unsigned char *own = aligned + STAGES * STAGE_BYTES + warp * WARP_BYTES;
    for (int turn = 0;; turn++) {
        wait(shared_address(&given[group]), turn % 2);
        const int4 unit = work[group];
        arrive(shared_address(&taken[group]));
        if (unit.x < 0)
            return;
        // A stage's parity tells only two of its uses apart: the other group has seen all of its own full before this
        // one looks for one.
        if (group + turn > 0)
            wait(shared_address(&order[group]), (group + turn + 1) % 2);
        if (unit.z == 0 && lane == 0)
            arrive(shared_address(&order[1 - group]));
        float sum[128];
#pragma unroll
        for (int i = 0; i < 128; i++)
            sum[i] = 0.0f;
        for (int e = 0; e < unit.z; e++) {
            const int at = unit.w + e;
            const unsigned stage = stages + at % STAGES * STAGE_BYTES;
            wait(shared_address(&full[at % STAGES]), at / STAGES % 2);
            __syncwarp();
            if (lane == 0 && e + 1 == unit.z)
                arrive(shared_address(&order[1 - group]));
            begin_products();
#pragma unroll
            for (int i = 0; i < BLOCK; i += 16)
                add_product(sum, describe(stage + i * 2), describe_right(stage + LEFT_BYTES + i * 128));
            commit_products();
            wait_products<1>();
            if (lane == 0 && e > 0)
                arrive(shared_address(&empty[(at - 1) % STAGES]));
            __syncwarp();
        }
        wait_products<0>();
        if (lane == 0 && unit.z > 0)
            arrive(shared_address(&empty[(unit.w + unit.z - 1) % STAGES]));
        store_rows(own, sum, c, unit.x * BLOCK + warp % 4 * 16, unit.y, n);
    }
}
