#define COLS 32
#define ROWS 8
#define PLANES 4
#define FILTERS 8
#define THREADS 256
#define STRIDE (COLS + 8)
#define TILE ((PLANES + 2) * (ROWS + 2) * STRIDE)

// 32x8x4 places and eight filters per block; a thread has four neighbouring places of each filter in registers.
extern "C" __global__ void __launch_bounds__(THREADS, 2)
    convolve(const float *__restrict__ in, const float *__restrict__ weights, float *__restrict__ out, int channels,
             int filters, int depth, int height, int width)
{
    __shared__ __align__(16) float tile[TILE];
    __shared__ float4 taps[27 * FILTERS / 4];
    const int groups = (filters + FILTERS - 1) / FILTERS;
    const int first = blockIdx.z % groups * FILTERS;
    const int x = blockIdx.x * COLS, y = blockIdx.y * ROWS, z = blockIdx.z / groups * PLANES;
    const int col = threadIdx.x % 8 * 4, row = threadIdx.x / 8 % ROWS, plane = threadIdx.x / 64;
    float sum[FILTERS][4] = {};
#pragma unroll 1
    for (int c = 0; c < channels; c++) {
        for (int item = threadIdx.x; item < (PLANES + 2) * (ROWS + 2) * (COLS + 2); item += THREADS) {
            const int k = item % (COLS + 2), j = item / (COLS + 2) % (ROWS + 2), i = item / ((COLS + 2) * (ROWS + 2));
            const int from_z = z + i - 1, from_y = y + j - 1, from_x = x + k - 1;
            const bool inside =
                from_z >= 0 && from_z < depth && from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
            tile[(i * (ROWS + 2) + j) * STRIDE + k] =
                inside ? __ldg(in + (static_cast<size_t>(c * depth + from_z) * height + from_y) * width + from_x)
                       : 0.0f;
        }
        for (int item = threadIdx.x; item < 27 * FILTERS; item += THREADS) {
            const int filter = first + item % FILTERS;
            reinterpret_cast<float *>(taps)[item] =
                filter < filters ? __ldg(weights + (filter * channels + c) * 27 + item / FILTERS) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int dz = 0; dz < 3; dz++) {
#pragma unroll
            for (int dy = 0; dy < 3; dy++) {
                const float *from = tile + ((plane + dz) * (ROWS + 2) + row + dy) * STRIDE + col;
                const float4 four = *reinterpret_cast<const float4 *>(from);
                const float2 two = *reinterpret_cast<const float2 *>(from + 4);
                const float v[6] = {four.x, four.y, four.z, four.w, two.x, two.y};
#pragma unroll
                for (int dx = 0; dx < 3; dx++) {
                    const float4 low = taps[(dz * 9 + dy * 3 + dx) * 2], high = taps[(dz * 9 + dy * 3 + dx) * 2 + 1];
                    const float w[FILTERS] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
                    for (int f = 0; f < FILTERS; f++)
#pragma unroll
                        for (int s = 0; s < 4; s++)
                            sum[f][s] += w[f] * v[s + dx];
                }
            }
        }
        __syncthreads();
    }
    if (z + plane >= depth || y + row >= height || x + col >= width)
        return;
#pragma unroll
    for (int f = 0; f < FILTERS; f++) {
        if (first + f >= filters)
            break;
        float *to = out + (static_cast<size_t>((first + f) * depth + z + plane) * height + y + row) * width + x + col;
        if (width % 4 == 0) {
            *reinterpret_cast<float4 *>(to) = make_float4(sum[f][0], sum[f][1], sum[f][2], sum[f][3]);
        } else {
#pragma unroll
            for (int s = 0; s < 4; s++)
                if (x + col + s < width)
                    to[s] = sum[f][s];
        }
    }
}
