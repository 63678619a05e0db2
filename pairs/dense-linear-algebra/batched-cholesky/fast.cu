#define WIDTH 32
#define WARPS 4
#define ALL 0xffffffffu

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    cholesky(const float *__restrict__ a, float *__restrict__ l, int batch, float shift)
{
    __shared__ float room[WARPS][WIDTH][WIDTH + 1];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int matrix = blockIdx.x * WARPS + warp;
    if (matrix >= batch)
        return;
    const size_t base = (size_t)matrix * WIDTH * WIDTH;
    float(*tile)[WIDTH + 1] = room[warp];
#pragma unroll
    for (int i = 0; i < WIDTH; i++)
        tile[i][lane] = __ldcs(a + base + i * WIDTH + lane);
    __syncwarp();

    float row[WIDTH];
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
        row[j] = j < lane ? tile[lane][j] : j == lane ? tile[lane][j] + shift : 0.0f;
#pragma unroll
    for (int k = 0; k < WIDTH; k++) {
        const float scale = rsqrtf(__shfl_sync(ALL, row[k], k));
        row[k] *= scale;
#pragma unroll
        for (int j = k + 1; j < WIDTH; j++) {
            const float other = __shfl_sync(ALL, row[k], j);
            if (j <= lane)
                row[j] = fmaf(-row[k], other, row[j]);
        }
    }
#pragma unroll
    for (int j = 0; j < WIDTH; j++)
        tile[lane][j] = row[j];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < WIDTH; i++)
        __stcs(l + base + i * WIDTH + lane, tile[i][lane]);
}
