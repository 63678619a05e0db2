#define TILE 64
#define THREADS 256
#define QUADS (TILE / 4)
#define STEP (THREADS / QUADS)

__device__ __forceinline__ void move_quads(float (*tile)[TILE + 1], const float *__restrict__ in,
                                           float *__restrict__ out, int rows, int cols, int row, int col)
{
    const int lane = threadIdx.x % QUADS * 4, line = threadIdx.x / QUADS;
    float4 held[TILE / STEP];
#pragma unroll
    for (int part = 0; part < TILE / STEP; part++) {
        const int y = row + line + part * STEP;
        held[part] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (y < rows && col + lane < cols)
            held[part] = __ldcs(reinterpret_cast<const float4 *>(in + y * cols + col + lane));
    }
#pragma unroll
    for (int part = 0; part < TILE / STEP; part++) {
        float *to = tile[line + part * STEP] + lane;
        to[0] = held[part].x;
        to[1] = held[part].y;
        to[2] = held[part].z;
        to[3] = held[part].w;
    }
    __syncthreads();
#pragma unroll
    for (int part = 0; part < TILE / STEP; part++) {
        const int x = line + part * STEP;
        if (col + x < cols && row + lane < rows) {
            const float4 value =
                make_float4(tile[lane][x], tile[lane + 1][x], tile[lane + 2][x], tile[lane + 3][x]);
            __stcs(reinterpret_cast<float4 *>(out + (col + x) * rows + row + lane), value);
        }
    }
}

__device__ __forceinline__ void move_singles(float (*tile)[TILE + 1], const float *__restrict__ in,
                                             float *__restrict__ out, int rows, int cols, int row, int col)
{
    const int lane = threadIdx.x % TILE, line = threadIdx.x / TILE;
    for (int y = line; y < TILE; y += THREADS / TILE)
        if (row + y < rows && col + lane < cols)
            tile[y][lane] = in[(row + y) * cols + col + lane];
    __syncthreads();
    for (int x = line; x < TILE; x += THREADS / TILE)
        if (col + x < cols && row + lane < rows)
            out[(col + x) * rows + row + lane] = tile[lane][x];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    transpose(const float *__restrict__ in, float *__restrict__ out, int rows, int cols)
{
    __shared__ float tile[TILE][TILE + 1];
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;
    if (rows % 4 == 0 && cols % 4 == 0)
        move_quads(tile, in, out, rows, cols, row, col);
    else
        move_singles(tile, in, out, rows, cols, row, col);
}
