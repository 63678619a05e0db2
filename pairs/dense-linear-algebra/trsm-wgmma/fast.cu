// One launch solves 64 right-hand sides a block from the first row to the last, on tf32 tensor cores with numbers split
// in two parts. The transposed product keeps a warp's sixteen columns in its lanes: sums are the next product's left
// operand as they lie, so only L is shared. Its tiles, split, swizzled, with inverted corners, come by bulk copies.
#define PANEL 64
#define DEPTH 32
#define COLS 64
#define CONSUMERS 128
#define THREADS (CONSUMERS + 32)
#define STAGES 4
#define TILE (PANEL * DEPTH)
#define STAGE_BYTES (2 * TILE * 4)
// Panels of unknowns kept in shared memory; later ones are read back from memory.
#define KEPT 8
#define KEPT_BYTES (KEPT * PANEL * COLS * 4)
#define SPLITTERS 256

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

// A number as its first 11 bits and what they leave, of which tf32 keeps 11 more.
__device__ __forceinline__ void split(float x, unsigned &high, unsigned &low)
{
    high = __float_as_uint(x) & 0xffffe000u;
    low = __float_as_uint(x - __uint_as_float(high));
}

// Tiles of 64 rows and 32 columns, those of a panel in a row and at its end the two halves of its inverted corner. In
// eight columns the even ones come first, as a lane has its sums; 16-byte chunks lie as wgmma's 128-byte swizzle wants.
extern "C" __global__ void __launch_bounds__(SPLITTERS)
    split_tiles(const float *__restrict__ l, float *__restrict__ tiles, int n)
{
    __shared__ __align__(16) float columns[PANEL][PANEL + 4];
    __shared__ float inverse[PANEL][DEPTH + 1];
    int panel = 0;
    while ((panel + 1) * (panel + 2) <= blockIdx.x)
        panel++;
    const int part = blockIdx.x - panel * (panel + 1), first = panel * PANEL;
    const bool corner = part >= 2 * panel;
    if (corner) {
        for (int item = threadIdx.x; item < PANEL * PANEL; item += SPLITTERS) {
            const int i = item / PANEL, j = item % PANEL;
            const bool inside = first + i < n && first + j < n;
            columns[j][i] = inside ? l[static_cast<size_t>(first + i) * n + first + j] : i == j ? 1.0f : 0.0f;
        }
        __syncthreads();
        if (threadIdx.x < DEPTH) {
            const int column = (part - 2 * panel) * DEPTH + threadIdx.x;
            float x[PANEL];
#pragma unroll
            for (int i = 0; i < PANEL; i++)
                x[i] = i == column ? 1.0f : 0.0f;
#pragma unroll
            for (int k = 0; k < PANEL; k++) {
                x[k] *= __frcp_rn(columns[k][k]);
                inverse[k][threadIdx.x] = x[k];
#pragma unroll
                for (int i = k / 4 * 4; i < PANEL; i += 4) {
                    const float4 four = *reinterpret_cast<const float4 *>(&columns[k][i]);
                    const float factor[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        if (i + e > k)
                            x[i + e] -= factor[e] * x[k];
                }
            }
        }
        __syncthreads();
    }
    float *to = tiles + static_cast<size_t>(blockIdx.x) * 2 * TILE;
    for (int item = threadIdx.x; item < TILE; item += SPLITTERS) {
        const int i = item / DEPTH, j = item % DEPTH, column = part * DEPTH + j;
        const bool inside = first + i < n;
        const float value = corner   ? inverse[i][j]
                            : inside ? l[static_cast<size_t>(first + i) * n + column]
                                     : 0.0f;
        const int slot = j / 8 * 8 + j % 2 * 4 + j % 8 / 2;
        const int place = i * DEPTH + (((slot / 4) ^ (i % 8)) * 4) + slot % 4;
        unsigned high, low;
        split(value, high, low);
        to[place] = __uint_as_float(high);
        to[TILE + place] = __uint_as_float(low);
    }
}

// Rows of 128 bytes, eight rows to a swizzled block of 1024.
__device__ __forceinline__ unsigned long long describe(unsigned tile)
{
    return 1ull << 62 | 64ull << 32 | 1ull << 16 | (tile & 0x3ffff) >> 4;
}

// d = a * tile, or added to d; the tile's eight columns at `tile`.
template <int ADDS>
__device__ __forceinline__ void multiply(float (&d)[32], const unsigned (&a)[4], unsigned long long tile)
{
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, adds, 1, 1;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(tile), "n"(ADDS));
}

// All groups of products are there but the last PENDING; d is among those that are.
template <int PENDING> __device__ __forceinline__ void wait_products(float (&d)[32])
{
    asm volatile("wgmma.wait_group.sync.aligned %32;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
          "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
          "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
          "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "n"(PENDING) : "memory");
}

// The left operands are in their registers from here on.
__device__ __forceinline__ void fence_operands(unsigned (&high)[4][4], unsigned (&low)[4][4])
{
    asm volatile(
        "wgmma.fence.sync.aligned;"
        : "+r"(high[0][0]), "+r"(high[0][1]), "+r"(high[0][2]), "+r"(high[0][3]),
          "+r"(high[1][0]), "+r"(high[1][1]), "+r"(high[1][2]), "+r"(high[1][3]),
          "+r"(high[2][0]), "+r"(high[2][1]), "+r"(high[2][2]), "+r"(high[2][3]),
          "+r"(high[3][0]), "+r"(high[3][1]), "+r"(high[3][2]), "+r"(high[3][3]),
          "+r"(low[0][0]), "+r"(low[0][1]), "+r"(low[0][2]), "+r"(low[0][3]),
          "+r"(low[1][0]), "+r"(low[1][1]), "+r"(low[1][2]), "+r"(low[1][3]),
          "+r"(low[2][0]), "+r"(low[2][1]), "+r"(low[2][2]), "+r"(low[2][3]),
          "+r"(low[3][0]), "+r"(low[3][1]), "+r"(low[3][2]), "+r"(low[3][3])
        :
        : "memory");
}

// 32 columns of L against as many unknowns: three of the four products of the parts, the small ones first.
__device__ __forceinline__ void multiply_stage(float (&d)[32], unsigned (&high)[4][4], unsigned (&low)[4][4],
                                               unsigned stage)
{
    const unsigned long long upper = describe(stage), lower = describe(stage + TILE * 4);
    fence_operands(high, low);
    multiply<0>(d, low[0], upper);
    multiply<1>(d, high[0], lower);
#pragma unroll
    for (int s = 1; s < 4; s++) {
        multiply<1>(d, low[s], upper + 2 * s);
        multiply<1>(d, high[s], lower + 2 * s);
    }
#pragma unroll
    for (int s = 0; s < 4; s++)
        multiply<1>(d, high[s], upper + 2 * s);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    solve(const float *__restrict__ tiles, float *b, int n, int m)
{
    extern __shared__ __align__(1024) unsigned char room[];
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    const int panels = (n + PANEL - 1) / PANEL;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            init_barrier(shared_address(&full[s]), 1);
            init_barrier(shared_address(&empty[s]), CONSUMERS / 32);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    // One thread sends for the tiles in the order of their use.
    if (threadIdx.x >= CONSUMERS) {
        if (threadIdx.x == CONSUMERS)
            for (int tile = 0; tile < panels * (panels + 1); tile++) {
                const int s = tile % STAGES;
                const unsigned barrier = shared_address(&full[s]);
                wait(shared_address(&empty[s]), (tile / STAGES + 1) % 2);
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "n"(STAGE_BYTES)
                             : "memory");
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                             " [%0], [%1], %2, [%3];" ::"r"(shared_address(room + s * STAGE_BYTES)),
                             "l"(tiles + static_cast<size_t>(tile) * 2 * TILE), "n"(STAGE_BYTES), "r"(barrier)
                             : "memory");
            }
        return;
    }

    float4 *kept = reinterpret_cast<float4 *>(room + STAGES * STAGE_BYTES) + threadIdx.x;
    const int lane = threadIdx.x % 32;
    const int column = blockIdx.x * COLS + threadIdx.x / 32 * 16 + lane / 4, row = lane % 4 * 2;
    const bool left = column < m, right = column + 8 < m;
    float *own = b + static_cast<size_t>(row) * m + column;
    // What a lane has of eight rows: two rows of two columns, in the order of the left operand.
    const auto load = [&](int first) {
        const float *from = own + static_cast<size_t>(first) * m;
        const bool upper = first + row < n, lower = first + row + 1 < n;
        return make_float4(upper && left ? from[0] : 0.0f, upper && right ? from[8] : 0.0f,
                           lower && left ? from[m] : 0.0f, lower && right ? from[m + 8] : 0.0f);
    };
    int tile = 0;
    const auto begin = [&]() {
        wait(shared_address(&full[tile % STAGES]), tile / STAGES % 2);
        return shared_address(room + tile++ % STAGES * STAGE_BYTES);
    };
    const auto release = [&](int which) {
        if (lane == 0)
            arrive(shared_address(&empty[which % STAGES]));
    };
    const auto unpack = [](unsigned (&high)[4], unsigned (&low)[4], const float4 &four) {
        split(four.x, high[0], low[0]);
        split(four.y, high[1], low[1]);
        split(four.z, high[2], low[2]);
        split(four.w, high[3], low[3]);
    };

    for (int panel = 0; panel < panels; panel++) {
        float4 value[8];
#pragma unroll
        for (int j = 0; j < 8; j++)
            value[j] = load(panel * PANEL + 8 * j);
        // Sums of 32 products by tensor cores, which may cut off bits where they add; the rest by ordinary additions.
        float sum[32] = {}, even[32] = {}, odd[32] = {};
        unsigned high[2][4][4], low[2][4][4];
        const auto fetch = [&](int half, int before) {
#pragma unroll
            for (int s = 0; s < 4; s++) {
                const int step = before * 8 + half * 4 + s;
                unpack(high[half][s], low[half][s], before < KEPT ? kept[step * CONSUMERS] : load(step * 8));
            }
        };
        if (panel > 0)
            fetch(0, 0);
        for (int before = 0; before < panel; before++) {
            multiply_stage(even, high[0], low[0], begin());
            fetch(1, before);
            multiply_stage(odd, high[1], low[1], begin());
            wait_products<1>(even);
            release(tile - 2);
#pragma unroll
            for (int i = 0; i < 32; i++)
                sum[i] += even[i];
            if (before + 1 < panel)
                fetch(0, before + 1);
            wait_products<0>(odd);
            release(tile - 1);
#pragma unroll
            for (int i = 0; i < 32; i++)
                sum[i] += odd[i];
        }
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const float4 rest = make_float4(value[j].x - sum[4 * j], value[j].y - sum[4 * j + 2],
                                            value[j].z - sum[4 * j + 1], value[j].w - sum[4 * j + 3]);
            unpack(high[j / 4][j % 4], low[j / 4][j % 4], rest);
        }
        multiply_stage(even, high[0], low[0], begin());
        multiply_stage(odd, high[1], low[1], begin());
        wait_products<1>(even);
        release(tile - 2);
        wait_products<0>(odd);
        release(tile - 1);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const float4 x = make_float4(even[4 * j] + odd[4 * j], even[4 * j + 2] + odd[4 * j + 2],
                                         even[4 * j + 1] + odd[4 * j + 1], even[4 * j + 3] + odd[4 * j + 3]);
            if (panel < KEPT && panel + 1 < panels)
                kept[(panel * 8 + j) * CONSUMERS] = x;
            const int first = panel * PANEL + 8 * j;
            float *to = own + static_cast<size_t>(first) * m;
            if (first + row < n) {
                if (left)
                    to[0] = x.x;
                if (right)
                    to[8] = x.y;
            }
            if (first + row + 1 < n) {
                if (left)
                    to[m] = x.z;
                if (right)
                    to[m + 8] = x.w;
            }
        }
    }
}
