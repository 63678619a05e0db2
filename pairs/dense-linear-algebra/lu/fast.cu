// A launch a panel of 32 columns. Each block solves its own rows and columns of the panels, a thread each in registers,
// multiplies them, and leaves what the next panels are in scratch memory: nobody reads what another block writes.
// The first block does no more than the next corner and factors it, while the others still work on their tiles.
#define PANEL 32
#define TILE 128
#define THREADS 256
#define PITCH (TILE + 4)
#define CORNER_PITCH (PANEL + 4)
#define FULL 0xffffffffu

struct Room {
    float left[PANEL][PITCH], right[PANEL][PITCH];
    // The corner's rows for what is below it, its columns for what is to its right, and inverse pivots or ones.
    float table[2][PANEL][CORNER_PITCH], scale[2][PANEL];
    int row, col, pitch;
};

__device__ __forceinline__ float invert(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Four numbers of a row of which `left` more belong to the matrix; `aligned` where all rows begin at 16 bytes.
__device__ __forceinline__ float4 load4(const float *__restrict__ from, int left, bool aligned)
{
    // Rows of whole fours have four numbers left, or none.
    if (aligned)
        return left > 0 ? *reinterpret_cast<const float4 *>(from) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return make_float4(left > 0 ? from[0] : 0.0f, left > 1 ? from[1] : 0.0f, left > 2 ? from[2] : 0.0f,
                       left > 3 ? from[3] : 0.0f);
}

__device__ __forceinline__ void store4(float *to, float4 four, int left, bool aligned)
{
    if (aligned) {
        if (left > 0)
            *reinterpret_cast<float4 *>(to) = four;
        return;
    }
    if (left > 0)
        to[0] = four.x;
    if (left > 1)
        to[1] = four.y;
    if (left > 2)
        to[2] = four.z;
    if (left > 3)
        to[3] = four.w;
}

// One warp, one lane a row in registers; the corner comes and goes by shared memory.
__device__ __forceinline__ void factor(float (&corner)[PANEL][CORNER_PITCH])
{
    const int lane = threadIdx.x;
    float row[PANEL];
#pragma unroll
    for (int j = 0; j < PANEL; j += 4) {
        const float4 four = *reinterpret_cast<const float4 *>(&corner[lane][j]);
        row[j] = four.x;
        row[j + 1] = four.y;
        row[j + 2] = four.z;
        row[j + 3] = four.w;
    }
#pragma unroll
    for (int k = 0; k < PANEL; k++) {
        const float share = row[k] * invert(__shfl_sync(FULL, row[k], k)), times = lane > k ? share : 0.0f;
        if (lane > k)
            row[k] = share;
#pragma unroll
        for (int j = k + 1; j < PANEL; j++)
            row[j] = fmaf(-times, __shfl_sync(FULL, row[j], k), row[j]);
    }
#pragma unroll
    for (int j = 0; j < PANEL; j += 4)
        *reinterpret_cast<float4 *>(&corner[lane][j]) = make_float4(row[j], row[j + 1], row[j + 2], row[j + 3]);
}

__device__ __forceinline__ void store_corner(const float (&corner)[PANEL][CORNER_PITCH], float *__restrict__ a, int n,
                                             int first)
{
    const int i = threadIdx.x / 8, j = threadIdx.x % 8 * 4;
    if (first + i < n)
        store4(a + static_cast<size_t>(first + i) * n + first + j, *reinterpret_cast<const float4 *>(&corner[i][j]),
               n - first - j, n % 4 == 0);
}

// The first corner, and copies of the first panels; a block has 128 of their rows and columns.
extern "C" __global__ void __launch_bounds__(THREADS)
    begin(float *__restrict__ a, float *__restrict__ below, float *__restrict__ beside, int n)
{
    const bool aligned = n % 4 == 0;
    const int stride = (n + 3) / 4 * 4;
    if (blockIdx.x == 0) {
        __shared__ __align__(16) float corner[PANEL][CORNER_PITCH];
        for (int item = threadIdx.x; item < PANEL * PANEL; item += THREADS) {
            const int i = item / PANEL, j = item % PANEL;
            corner[i][j] = i < n && j < n ? a[static_cast<size_t>(i) * n + j] : i == j ? 1.0f : 0.0f;
        }
        __syncthreads();
        if (threadIdx.x < 32)
            factor(corner);
        __syncthreads();
        store_corner(corner, a, n, 0);
        return;
    }
    const int first = PANEL + (blockIdx.x - 1) * TILE;
    for (int item = threadIdx.x; item < TILE * PANEL / 4; item += THREADS) {
        const int row = first + item / 8, col = item % 8 * 4;
        if (row < n)
            store4(below + static_cast<size_t>(row) * PANEL + col,
                   load4(a + static_cast<size_t>(row) * n + col, 4, aligned), 4, true);
    }
    for (int item = threadIdx.x; item < TILE * PANEL / 4; item += THREADS) {
        const int row = item / (TILE / 4), col = first + item % (TILE / 4) * 4;
        if (col < n)
            store4(beside + static_cast<size_t>(row) * stride + col,
                   load4(a + static_cast<size_t>(row) * n + col, n - col, aligned), 4, true);
    }
}

// The corner, then a thread's row below it (the first half of the block) or column beside it (the second), solved.
__device__ __forceinline__ void solve_panels(Room &room, float *__restrict__ a, const float *__restrict__ below,
                                             const float *__restrict__ beside, int n, int first, int row, int col,
                                             int count, bool keep_rows, bool keep_cols)
{
    const int half = threadIdx.x / TILE, t = threadIdx.x % TILE, at = (half == 0 ? row : col) + t;
    const bool inside = t < count && at < n;
    float x[PANEL];
    if (half == 0) {
#pragma unroll
        for (int k = 0; k < PANEL; k += 4) {
            const float4 four = load4(below + static_cast<size_t>(at) * PANEL + k, inside ? 4 : 0, true);
            x[k] = four.x;
            x[k + 1] = four.y;
            x[k + 2] = four.z;
            x[k + 3] = four.w;
        }
    } else {
        const int stride = (n + 3) / 4 * 4;
#pragma unroll
        for (int k = 0; k < PANEL; k++)
            x[k] = inside ? beside[static_cast<size_t>(k) * stride + at] : 0.0f;
    }
    {
        const int i = threadIdx.x / 8, j = threadIdx.x % 8 * 4;
        const float4 four = load4(a + static_cast<size_t>(first + i) * n + first + j, 4, n % 4 == 0);
        const float value[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int e = 0; e < 4; e++) {
            room.table[0][i][j + e] = value[e];
            room.table[1][j + e][i] = value[e];
            if (i == j + e) {
                room.scale[0][i] = invert(value[e]);
                room.scale[1][i] = 1.0f;
            }
        }
    }
    __syncthreads();
    if (t < count) {
        const auto &table = room.table[half];
#pragma unroll
        for (int k = 0; k < PANEL; k++) {
            x[k] *= room.scale[half][k];
#pragma unroll
            for (int j = k / 4 * 4; j < PANEL; j += 4) {
                const float4 four = *reinterpret_cast<const float4 *>(&table[k][j]);
                const float value[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (j + e > k)
                        x[j + e] = fmaf(-x[k], value[e], x[j + e]);
            }
        }
        auto &to = half == 0 ? room.left : room.right;
#pragma unroll
        for (int k = 0; k < PANEL; k++)
            to[k][t] = x[k];
        if (half == 0 && keep_rows && inside)
#pragma unroll
            for (int k = 0; k < PANEL; k += 4)
                store4(a + static_cast<size_t>(at) * n + first + k, make_float4(x[k], x[k + 1], x[k + 2], x[k + 3]), 4,
                       n % 4 == 0);
        if (half == 1 && keep_cols && inside)
#pragma unroll
            for (int k = 0; k < PANEL; k++)
                a[static_cast<size_t>(first + k) * n + at] = x[k];
    }
    __syncthreads();
}

// The corner that the next launch needs: its product with one output of four columns a thread, then one warp.
__device__ __forceinline__ void next_corner(Room &room, float *__restrict__ a, const float *__restrict__ below,
                                            const float *__restrict__ beside, int n, int first)
{
    const int behind = first + PANEL, i = threadIdx.x / 8, j = threadIdx.x % 8 * 4;
    const float4 old = load4(a + static_cast<size_t>(behind + i) * n + behind + j, behind + i < n ? n - behind - j : 0,
                             n % 4 == 0);
    solve_panels(room, a, below, beside, n, first, behind, behind, PANEL, false, false);
    float sum[4] = {old.x, old.y, old.z, old.w};
#pragma unroll
    for (int k = 0; k < PANEL; k++) {
        const float4 four = *reinterpret_cast<const float4 *>(&room.right[k][j]);
        const float p = room.left[k][i];
        sum[0] = fmaf(-p, four.x, sum[0]);
        sum[1] = fmaf(-p, four.y, sum[1]);
        sum[2] = fmaf(-p, four.z, sum[2]);
        sum[3] = fmaf(-p, four.w, sum[3]);
    }
    // The table is free: everybody is past its last use. Beyond the matrix the corner is a unit matrix.
    auto &corner = room.table[0];
#pragma unroll
    for (int e = 0; e < 4; e++)
        corner[i][j + e] = behind + i < n && behind + j + e < n ? sum[e] : i == j + e ? 1.0f : 0.0f;
    __syncthreads();
    if (threadIdx.x < 32)
        factor(corner);
    __syncthreads();
    store_corner(corner, a, n, behind);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    update(float *__restrict__ a, const float *__restrict__ below, const float *__restrict__ beside,
           float *__restrict__ next_below, float *__restrict__ next_beside, int n, int first)
{
    __shared__ __align__(16) Room room;
    if (blockIdx.x == 0) {
        next_corner(room, a, below, beside, n, first);
        return;
    }
    const int behind = first + PANEL, tiles = (n - behind + TILE - 1) / TILE;
    const int across = (blockIdx.x - 1) % tiles, down = (blockIdx.x - 1) / tiles;
    const int row = behind + down * TILE, col = behind + across * TILE;
    const int y = threadIdx.x / 16 * 4, x = threadIdx.x % 16 * 4;
    // Eight rows and columns a thread, four of them in each half of the tile.
    float sum[8][8];
    const auto load_tile = [&](bool aligned) {
#pragma unroll
        for (int r = 0; r < 8; r++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int i = row + r / 4 * 64 + y + r % 4, j = col + half * 64 + x;
                // The next corner is the first block's.
                const bool mine = i < n && (i >= behind + PANEL || j >= behind + PANEL);
                const float4 old = load4(a + static_cast<size_t>(i) * n + j, mine ? n - j : 0, aligned);
                sum[r][4 * half] = old.x;
                sum[r][4 * half + 1] = old.y;
                sum[r][4 * half + 2] = old.z;
                sum[r][4 * half + 3] = old.w;
            }
    };
    if (n % 4 == 0)
        load_tile(true);
    else
        load_tile(false);
    if (threadIdx.x == 0) {
        room.row = row;
        room.col = col;
        room.pitch = n;
    }
    solve_panels(room, a, below, beside, n, first, row, col, TILE, across == 0, down == 0);
#pragma unroll 8
    for (int k = 0; k < PANEL; k++) {
        float p[8], q[8];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float4 left = *reinterpret_cast<const float4 *>(&room.left[k][half * 64 + y]);
            const float4 right = *reinterpret_cast<const float4 *>(&room.right[k][half * 64 + x]);
            p[4 * half] = left.x, p[4 * half + 1] = left.y, p[4 * half + 2] = left.z, p[4 * half + 3] = left.w;
            q[4 * half] = right.x, q[4 * half + 1] = right.y, q[4 * half + 2] = right.z, q[4 * half + 3] = right.w;
        }
#pragma unroll
        for (int r = 0; r < 8; r++)
#pragma unroll
            for (int s = 0; s < 8; s++)
                sum[r][s] = fmaf(-p[r], q[s], sum[r][s]);
    }
    // Numbers that the compiler does not know: the places of the loads would not fit into registers until here.
    const int top = *static_cast<volatile int *>(&room.row) + y, side = *static_cast<volatile int *>(&room.col) + x;
    const int pitch = *static_cast<volatile int *>(&room.pitch);
    const int stride = (n + 3) / 4 * 4;
    const auto store_tile = [&](bool aligned) {
#pragma unroll
        for (int r = 0; r < 8; r++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int i = top + r / 4 * 64 + r % 4, j = side + half * 64;
                const bool is_below = j < behind + PANEL, is_beside = i < behind + PANEL;
                if (i >= n || j >= n || (is_below && is_beside))
                    continue;
                const float4 four =
                    make_float4(sum[r][4 * half], sum[r][4 * half + 1], sum[r][4 * half + 2], sum[r][4 * half + 3]);
                if (is_below)
                    *reinterpret_cast<float4 *>(next_below + static_cast<size_t>(i) * PANEL + j - behind) = four;
                else if (is_beside)
                    *reinterpret_cast<float4 *>(next_beside + static_cast<size_t>(i - behind) * stride + j) = four;
                else
                    store4(a + static_cast<size_t>(i) * pitch + j, four, n - j, aligned);
            }
    };
    if (n % 4 == 0)
        store_tile(true);
    else
        store_tile(false);
}
