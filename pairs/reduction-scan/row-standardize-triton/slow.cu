#define THREADS 256
#define PARTS 16

__device__ float block_sum(float mine)
{
    __shared__ float room[THREADS];
    room[threadIdx.x] = mine;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            room[threadIdx.x] += room[threadIdx.x + half];
        __syncthreads();
    }
    return room[0];
}

__device__ float row_total(const float *parts)
{
    float total = 0.0f;
    for (int part = 0; part < PARTS; part++)
        total += parts[blockIdx.y * PARTS + part];
    return total;
}

extern "C" __global__ void part_sums(const float *values, float *sums, int cols)
{
    const float *row = values + (size_t)blockIdx.y * cols;
    float mine = 0.0f;
    for (int col = blockIdx.x * THREADS + threadIdx.x; col < cols; col += PARTS * THREADS)
        mine += row[col];
    float total = block_sum(mine);
    if (threadIdx.x == 0)
        sums[blockIdx.y * PARTS + blockIdx.x] = total;
}

extern "C" __global__ void part_squares(const float *values, const float *sums, float *squares, int cols)
{
    const float *row = values + (size_t)blockIdx.y * cols;
    float mean = row_total(sums) / cols;
    float mine = 0.0f;
    for (int col = blockIdx.x * THREADS + threadIdx.x; col < cols; col += PARTS * THREADS) {
        float off = row[col] - mean;
        mine += off * off;
    }
    float total = block_sum(mine);
    if (threadIdx.x == 0)
        squares[blockIdx.y * PARTS + blockIdx.x] = total;
}

extern "C" __global__ void standardize(const float *values, const float *sums, const float *squares, float *out,
                                       int cols, float eps)
{
    const float *row = values + (size_t)blockIdx.y * cols;
    float mean = row_total(sums) / cols;
    float scale = rsqrtf(row_total(squares) / cols + eps);
    for (int col = blockIdx.x * THREADS + threadIdx.x; col < cols; col += PARTS * THREADS)
        out[(size_t)blockIdx.y * cols + col] = (row[col] - mean) * scale;
}
