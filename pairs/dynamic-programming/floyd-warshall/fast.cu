// The next pivot is closed by one block while the others relax the rest, so that a round's first launch is no more than
// a product with a closed pivot. The rest is relaxed in tiles of 128x128, 64 cells a thread, a sum and minimum at once.
#define T 64
#define THREADS 256
#define SIDE 16
#define EACH 4
#define PITCH (T + 4)
#define TILE 128
#define FAR 1000000000

__device__ __forceinline__ int4 load4(const int *__restrict__ distances, int n, int i, int j)
{
    const int *from = distances + i * n + j;
    if (n % 4 == 0)
        return i < n && j < n ? *reinterpret_cast<const int4 *>(from) : make_int4(FAR, FAR, FAR, FAR);
    return make_int4(i < n && j < n ? from[0] : FAR, i < n && j + 1 < n ? from[1] : FAR,
                     i < n && j + 2 < n ? from[2] : FAR, i < n && j + 3 < n ? from[3] : FAR);
}

// HEIGHT x WIDTH numbers from (row, col) to shared memory, on their way after this. Beyond the matrix there are noughts
// where rows are of whole fours, and numbers far too large otherwise.
template <int HEIGHT, int WIDTH, int ROW>
__device__ __forceinline__ void copy_tile(int (*to)[ROW], const int *__restrict__ distances, int n, int row, int col)
{
    if (n % 4 == 0) {
#pragma unroll
        for (int part = 0; part < HEIGHT * WIDTH / 4 / THREADS; part++) {
            const int item = threadIdx.x + part * THREADS, i = item / (WIDTH / 4), j = item % (WIDTH / 4) * 4;
            const bool inside = row + i < n && col + j < n;
            const int *from = distances + (inside ? (row + i) * n + col + j : 0);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                             static_cast<unsigned>(__cvta_generic_to_shared(&to[i][j]))),
                         "l"(from), "r"(inside ? 16 : 0)
                         : "memory");
        }
        return;
    }
#pragma unroll 1
    for (int item = threadIdx.x; item < HEIGHT * WIDTH; item += THREADS) {
        const int i = item / WIDTH, j = item % WIDTH;
        to[i][j] = row + i < n && col + j < n ? distances[(row + i) * n + col + j] : FAR;
    }
}

__device__ __forceinline__ void wait_copies()
{
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
}

// The steps of a round that lead through nodes of the matrix, in pairs.
__device__ __forceinline__ int steps_of(int n, int round) { return min(T, (n - round * T + 1) / 2 * 2); }

__device__ __forceinline__ void store4(int *__restrict__ distances, int n, int i, int j, const int (&four)[4])
{
    int *to = distances + i * n + j;
    if (n % 4 == 0) {
        if (i < n && j < n)
            *reinterpret_cast<int4 *>(to) = make_int4(four[0], four[1], four[2], four[3]);
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
        if (i < n && j + e < n)
            to[e] = four[e];
}

__device__ __forceinline__ void unpack(int (&to)[4], const int4 &four)
{
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
}

__device__ __forceinline__ void relax(int (&own)[EACH][EACH], const int (*left)[PITCH], const int (*above)[PITCH],
                                      int k)
{
    const int x = threadIdx.x % SIDE * EACH, y = threadIdx.x / SIDE * EACH;
    int right[4];
    unpack(right, *reinterpret_cast<const int4 *>(&above[k][x]));
#pragma unroll
    for (int r = 0; r < EACH; r++) {
        const int to = left[y + r][k];
#pragma unroll
        for (int c = 0; c < EACH; c++)
            own[r][c] = __viaddmin_s32(to, right[c], own[r][c]);
    }
}

// Closes a tile of 64x64, 4x4 cells a thread. Rows and columns of a step go to places of their own, so that one barrier
// a step is enough.
__device__ __forceinline__ void close(int (&own)[EACH][EACH], int (*left)[PITCH], int (*above)[PITCH],
                                      int *__restrict__ closed)
{
    const int x = threadIdx.x % SIDE * EACH, y = threadIdx.x / SIDE * EACH;
    for (int base = 0; base < T; base += EACH) {
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            if (y == base)
                *reinterpret_cast<int4 *>(&above[base + e][x]) = make_int4(own[e][0], own[e][1], own[e][2], own[e][3]);
            if (x == base)
#pragma unroll
                for (int r = 0; r < EACH; r++)
                    left[y + r][base + e] = own[r][e];
            __syncthreads();
            relax(own, left, above, base + e);
        }
    }
#pragma unroll
    for (int r = 0; r < EACH; r++)
        *reinterpret_cast<int4 *>(closed + (y + r) * T + x) = make_int4(own[r][0], own[r][1], own[r][2], own[r][3]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    close_first(const int *__restrict__ distances, int *__restrict__ closed, int n)
{
    __shared__ __align__(16) int left[T][PITCH], above[T][PITCH];
    int own[EACH][EACH];
#pragma unroll
    for (int r = 0; r < EACH; r++)
        unpack(own[r], load4(distances, n, threadIdx.x / SIDE * EACH + r, threadIdx.x % SIDE * EACH));
    close(own, left, above, closed);
}

// The pivot's row and column of tiles, half a tile a block: the lesser of the old value and that by way of the closed
// pivot, whose places beyond the matrix are far away. Nobody reads the old pivot, so the first block stores it.
extern "C" __global__ void __launch_bounds__(THREADS)
    relax_cross(int *__restrict__ distances, const int *__restrict__ closed, int n, int round)
{
    __shared__ __align__(16) int pivot[T][PITCH], panel[T][PITCH];
    const bool is_row = blockIdx.y == 0;
    const int tile = blockIdx.x / 2, other = tile < round ? tile : tile + 1, half = blockIdx.x % 2 * (T / 2);
    const int row = is_row ? round * T : other * T + half, col = is_row ? other * T + half : round * T;
    const int across = is_row ? T / 8 : T / 4;
    const int x = threadIdx.x % across * 4, y = threadIdx.x / across * 2;
    copy_tile<T, T>(pivot, closed, T, 0, 0);
    if (is_row)
        copy_tile<T, T / 2>(panel, distances, n, row, col);
    else
        copy_tile<T / 2, T>(panel, distances, n, row, col);
    wait_copies();
    if (blockIdx.x == 0 && is_row)
#pragma unroll
        for (int part = 0; part < T * T / 4 / THREADS; part++) {
            const int item = threadIdx.x + part * THREADS, i = item / (T / 4), j = item % (T / 4) * 4;
            int cells[4];
            unpack(cells, *reinterpret_cast<const int4 *>(&pivot[i][j]));
            store4(distances, n, round * T + i, round * T + j, cells);
        }
    const int(*left)[PITCH] = is_row ? pivot : panel;
    const int(*above)[PITCH] = is_row ? panel : pivot;
    int own[2][4];
#pragma unroll
    for (int r = 0; r < 2; r++)
        unpack(own[r], *reinterpret_cast<const int4 *>(&panel[y + r][x]));
#pragma unroll 4
    for (int k = 0; k < T; k += 4) {
        int to[2][4], right[4][4];
#pragma unroll
        for (int r = 0; r < 2; r++)
            unpack(to[r], *reinterpret_cast<const int4 *>(&left[y + r][k]));
#pragma unroll
        for (int e = 0; e < 4; e++)
            unpack(right[e], *reinterpret_cast<const int4 *>(&above[k + e][x]));
#pragma unroll
        for (int e = 0; e < 4; e++)
#pragma unroll
            for (int r = 0; r < 2; r++)
#pragma unroll
                for (int c = 0; c < 4; c++)
                    own[r][c] = __viaddmin_s32(to[r][e], right[e][c], own[r][c]);
    }
#pragma unroll
    for (int r = 0; r < 2; r++)
        store4(distances, n, row + y + r, col + x, own[r]);
}

// The pivot of the next round: relaxed, then closed.
__device__ __forceinline__ void next_pivot(const int *__restrict__ distances, int *__restrict__ closed, int n,
                                           int round, int *room)
{
    int(*left)[PITCH] = reinterpret_cast<int(*)[PITCH]>(room), (*above)[PITCH] = left + T;
    const int now = round * T, next = now + T;
    if (next >= n)
        return;
    int own[EACH][EACH];
#pragma unroll
    for (int r = 0; r < EACH; r++)
        unpack(own[r], load4(distances, n, next + threadIdx.x / SIDE * EACH + r, next + threadIdx.x % SIDE * EACH));
    copy_tile<T, T>(left, distances, n, next, now);
    copy_tile<T, T>(above, distances, n, now, next);
    wait_copies();
    const int steps = steps_of(n, round);
#pragma unroll 8
    for (int k = 0; k < steps; k++)
        relax(own, left, above, k);
    // What lies beyond the matrix stays far away.
#pragma unroll
    for (int r = 0; r < EACH; r++)
#pragma unroll
        for (int c = 0; c < EACH; c++)
            if (next + threadIdx.x / SIDE * EACH + r >= n || next + threadIdx.x % SIDE * EACH + c >= n)
                own[r][c] = FAR;
    __syncthreads();
    close(own, left, above, closed);
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    relax_rest(int *__restrict__ distances, int *__restrict__ closed, int n, int round)
{
    extern __shared__ __align__(16) int room[];
    if (blockIdx.x == 0) {
        next_pivot(distances, closed, n, round, room);
        return;
    }
    int(*left)[PITCH] = reinterpret_cast<int(*)[PITCH]>(room);
    int(*above)[TILE] = reinterpret_cast<int(*)[TILE]>(room + TILE * PITCH);
    const int tiles = (n + TILE - 1) / TILE;
    const int row = (blockIdx.x - 1) / tiles * TILE, col = (blockIdx.x - 1) % tiles * TILE;
    const int x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
    copy_tile<TILE, T>(left, distances, n, row, round * T);
    copy_tile<T, TILE>(above, distances, n, round * T, col);
    // Eight rows and columns a thread, four of them in each half of the tile.
    int own[8][8];
    if (n % 4 == 0) {
#pragma unroll
        for (int r = 0; r < 8; r++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int i = row + r / 4 * 64 + y + r % 4, j = col + half * 64 + x;
                int4 four = make_int4(FAR, FAR, FAR, FAR);
                if (i < n && j < n)
                    four = *reinterpret_cast<const int4 *>(distances + i * n + j);
                own[r][4 * half] = four.x, own[r][4 * half + 1] = four.y;
                own[r][4 * half + 2] = four.z, own[r][4 * half + 3] = four.w;
            }
    } else {
#pragma unroll
        for (int r = 0; r < 8; r++)
#pragma unroll
            for (int c = 0; c < 8; c++) {
                const int i = row + r / 4 * 64 + y + r % 4, j = col + c / 4 * 64 + x + c % 4;
                own[r][c] = i < n && j < n ? distances[i * n + j] : FAR;
            }
    }
    wait_copies();
    const int steps = steps_of(n, round);
#pragma unroll 2
    for (int k = 0; k < steps; k += 2) {
        int right[2][8];
#pragma unroll
        for (int e = 0; e < 2; e++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const int4 four = *reinterpret_cast<const int4 *>(&above[k + e][half * 64 + x]);
                right[e][4 * half] = four.x, right[e][4 * half + 1] = four.y;
                right[e][4 * half + 2] = four.z, right[e][4 * half + 3] = four.w;
            }
#pragma unroll
        for (int r = 0; r < 8; r++) {
            const int2 to = *reinterpret_cast<const int2 *>(&left[r / 4 * 64 + y + r % 4][k]);
#pragma unroll
            for (int c = 0; c < 8; c++)
                own[r][c] = __viaddmin_s32(to.y, right[1][c], __viaddmin_s32(to.x, right[0][c], own[r][c]));
        }
    }
    // The pivot's rows and columns stay, for others read them; the next pivot is the first block's.
#pragma unroll
    for (int r = 0; r < 8; r++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const int i = row + r / 4 * 64 + y + r % 4, j = col + half * 64 + x;
            const int four[4] = {own[r][4 * half], own[r][4 * half + 1], own[r][4 * half + 2], own[r][4 * half + 3]};
            if (i / T != round && j / T != round && (i / T != round + 1 || j / T != round + 1))
                store4(distances, n, i, j, four);
        }
}
