#define WIDTH 32
#define ROWS 32

// A block has all of G for a share of the rows, one element a thread, and reads its rows once.
extern "C" __global__ void gram(const float *a, float *partial, int n)
{
    __shared__ float tile[ROWS][WIDTH];
    int i = threadIdx.y, j = threadIdx.x;
    float sum = 0.0f;
    for (int first = blockIdx.x * ROWS; first < n; first += gridDim.x * ROWS) {
        tile[i][j] = first + i < n ? a[(first + i) * WIDTH + j] : 0.0f;
        __syncthreads();
        for (int row = 0; row < ROWS; row++)
            sum += tile[row][i] * tile[row][j];
        __syncthreads();
    }
    partial[(blockIdx.x * WIDTH + i) * WIDTH + j] = sum;
}

extern "C" __global__ void combine(const float *partial, float *g, int parts)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    for (int part = 0; part < parts; part++)
        sum += partial[part * WIDTH * WIDTH + at];
    g[at] = sum;
}
