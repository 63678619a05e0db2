#define THREADS 128
#define ROWS 128
#define COLS 64
#define DEPTH 32
#define STAGES 3
#define LEFT (ROWS * DEPTH)
#define RIGHT_PITCH (COLS + 8)
#define STAGE (LEFT + DEPTH * RIGHT_PITCH)

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// 16 bytes to shared memory in the background; zeros where there is nothing to read.
__device__ __forceinline__ void copy_async(void *to, const void *from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(inside ? 16 : 0) : "memory");
}

__device__ __forceinline__ void commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// All groups of copies have arrived but the last PENDING.
template <int PENDING> __device__ __forceinline__ void wait_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Rows of 128 bytes of the left factor, whose chunks are exchanged within eight rows.
__device__ __forceinline__ int place(int row, int col)
{
    return row * DEPTH + ((col / 4 ^ row) & 7) * 4 + col % 4;
}

// HEIGHT x WIDTH numbers from (row, col); number by number where rows are not aligned.
template <int HEIGHT, int WIDTH, typename Where>
__device__ __forceinline__ void copy_tile(float *to, const float *__restrict__ from, int row, int rows, int col,
                                          int cols,
                                          Where where)
{
    if (cols % 4 == 0) {
#pragma unroll
        for (int part = 0; part < HEIGHT * WIDTH / 4 / THREADS; part++) {
            const int item = threadIdx.x + part * THREADS, i = item / (WIDTH / 4), j = item % (WIDTH / 4) * 4;
            const bool inside = row + i < rows && col + j < cols;
            copy_async(to + where(i, j), inside ? from + static_cast<size_t>(row + i) * cols + col + j : from, inside);
        }
        return;
    }
#pragma unroll 1
    for (int item = threadIdx.x; item < HEIGHT * WIDTH; item += THREADS) {
        const int i = item / WIDTH, j = item % WIDTH;
        const bool inside = row + i < rows && col + j < cols;
        to[where(i, j)] = inside ? from[static_cast<size_t>(row + i) * cols + col + j] : 0.0f;
    }
}

// A number as its first 11 bits and what they leave, of which tf32 keeps 11 more.
__device__ __forceinline__ void split(float x, unsigned &high, unsigned &low)
{
    high = __float_as_uint(x) & 0xffffe000u;
    low = __float_as_uint(x - __uint_as_float(high));
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A warp's tile of 64 x 32: three of the four products of the parts, the small ones first. Tensor cores may cut off
// bits where they add, so a stage is summed alone, and added by ordinary arithmetic, which rounds. A lane's rows of the
// left factor are all the same among eight, so that its chunks lie at one place in each.
__device__ __forceinline__ void multiply_stage(float (&sum)[4][4][4], const float *left, const float *right, int y,
                                               int x)
{
    const int lane = threadIdx.x % 32;
    left += (y + lane / 4) * DEPTH + lane % 4;
    right += lane % 4 * RIGHT_PITCH + x + lane / 4;
    float part[4][4][4] = {};
#pragma unroll 4
    for (int step = 0; step < DEPTH; step += 8) {
        const int at[2] = {(step / 4 ^ lane / 4) * 4, ((step / 4 + 1) ^ lane / 4) * 4};
        unsigned q[2][4][2];
#pragma unroll
        for (int s = 0; s < 4; s++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                split(right[(step + 4 * e) * RIGHT_PITCH + 8 * s], q[0][s][e], q[1][s][e]);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            unsigned p[2][4];
#pragma unroll
            for (int e = 0; e < 4; e++)
                split(left[(16 * r + e % 2 * 8) * DEPTH + at[e / 2]], p[0][e], p[1][e]);
            // The three products of a sum wait for each other, so those of four sums take turns.
#pragma unroll
            for (int s = 0; s < 4; s++)
                multiply(part[r][s], p[1], q[0][s]);
#pragma unroll
            for (int s = 0; s < 4; s++)
                multiply(part[r][s], p[0], q[1][s]);
#pragma unroll
            for (int s = 0; s < 4; s++)
                multiply(part[r][s], p[0], q[0][s]);
        }
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int s = 0; s < 4; s++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                sum[r][s][e] += part[r][s][e];
}

__device__ __forceinline__ void put(float *__restrict__ c, int row, int col, int m, int n, float left, float right)
{
    if (row >= m || col >= n)
        return;
    float *to = c + static_cast<size_t>(row) * n + col;
    if (n % 2 == 0) {
        *reinterpret_cast<float2 *>(to) = make_float2(left, right);
        return;
    }
    to[0] = left;
    if (col + 1 < n)
        to[1] = right;
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    sgemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int m, int n, int k)
{
    extern __shared__ __align__(128) float stages[];
    const int row = blockIdx.y * ROWS, col = blockIdx.x * COLS;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int y = warp / 2 * 64, x = warp % 2 * 32;
    const int tiles = (k + DEPTH - 1) / DEPTH;
    float sum[4][4][4] = {};
    const auto load = [&](int tile) {
        float *stage = stages + tile % STAGES * STAGE;
        copy_tile<ROWS, DEPTH>(stage, a, row, m, tile * DEPTH, k, place);
        copy_tile<DEPTH, COLS>(stage + LEFT, b, tile * DEPTH, k, col, n,
                               [](int i, int j) { return i * RIGHT_PITCH + j; });
    };
    for (int tile = 0; tile < STAGES - 1; tile++) {
        if (tile < tiles)
            load(tile);
        commit();
    }
    for (int tile = 0; tile < tiles; tile++) {
        wait_copies<STAGES - 2>();
        __syncthreads();
        if (tile + STAGES - 1 < tiles)
            load(tile + STAGES - 1);
        commit();
        const float *stage = stages + tile % STAGES * STAGE;
        multiply_stage(sum, stage, stage + LEFT, y, x);
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int s = 0; s < 4; s++) {
            const int i = row + y + 16 * r + lane / 4, j = col + x + 8 * s + lane % 4 * 2;
            put(c, i, j, m, n, sum[r][s][0], sum[r][s][1]);
            put(c, i + 8, j, m, n, sum[r][s][2], sum[r][s][3]);
        }
}
