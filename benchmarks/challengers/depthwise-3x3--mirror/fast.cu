// A thread marches through a band of rows, four columns wide, with four rows under way. Every other band marches
// upwards, so that neighbours read the rows they share at the same time: memory gives them once, the second level of
// cache the second time.
#define THREADS 64
#define ROWS 64
#define AHEAD 4
#define ALL 0xffffffffu

// Four columns of a row and the one beside the warp's 128, in its first and last lane.
struct Row {
    float4 v;
    float beside;
};

__device__ __forceinline__ Row load_row(const float *__restrict__ plane, int y, int x, int h, int w)
{
    Row r = {make_float4(0.0f, 0.0f, 0.0f, 0.0f), 0.0f};
    if (y < 0 || y >= h || x >= w)
        return r;
    const float *at = plane + y * w + x;
    const int lane = threadIdx.x % 32;
    r.v = __ldg(reinterpret_cast<const float4 *>(at));
    if ((lane == 0 && x > 0) || (lane == 31 && x + 4 < w))
        r.beside = __ldg(at + (lane == 0 ? -1 : 4));
    return r;
}

// Adds a row's share to the four sums of the row before it, its own and the one after it.
__device__ __forceinline__ void add_row(float (&sum)[3][4], const Row &row, const float (&tap)[3][3])
{
    const int lane = threadIdx.x % 32;
    float left = __shfl_up_sync(ALL, row.v.w, 1), right = __shfl_down_sync(ALL, row.v.x, 1);
    left = lane == 0 ? row.beside : left;
    right = lane == 31 ? row.beside : right;
    const float value[6] = {left, row.v.x, row.v.y, row.v.z, row.v.w, right};
#pragma unroll
    for (int r = 0; r < 3; r++)
#pragma unroll
        for (int s = 0; s < 4; s++)
#pragma unroll
            for (int j = 0; j < 3; j++)
                sum[r][s] = fmaf(value[s + j], tap[2 - r][j], sum[r][s]);
}

// `tap` is in the order of the march.
__device__ __forceinline__ void march4(const float *__restrict__ plane, float *__restrict__ to, int h, int w, int x,
                                       int first, int count, int step, const float (&tap)[3][3])
{
    float sum[3][4] = {};
    Row ahead[AHEAD];
    add_row(sum, load_row(plane, first - step, x, h, w), tap);
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
        ahead[u] = load_row(plane, first + step * u, x, h, w);
    // Row i ends the sums of row i - 1.
    for (int i = 0; i <= count; i += AHEAD) {
#pragma unroll
        for (int u = 0; u < AHEAD; u++) {
            if (i + u > count)
                break;
            const Row row = ahead[u];
            if (i + u + AHEAD <= count)
                ahead[u] = load_row(plane, first + step * (i + u + AHEAD), x, h, w);
#pragma unroll
            for (int s = 0; s < 4; s++) {
                sum[0][s] = sum[1][s];
                sum[1][s] = sum[2][s];
                sum[2][s] = 0.0f;
            }
            add_row(sum, row, tap);
            if (i + u > 0 && x < w)
                __stcs(reinterpret_cast<float4 *>(to + (first + step * (i + u - 1)) * w + x),
                       make_float4(sum[0][0], sum[0][1], sum[0][2], sum[0][3]));
        }
    }
}

__device__ void by_elements(const float *__restrict__ plane, float *__restrict__ to, int h, int w, int x, int first,
                            int count, const float (&tap)[3][3])
{
    for (int y = first; y < first + count; y++) {
        float sum = 0.0f;
#pragma unroll
        for (int r = 0; r < 3; r++)
#pragma unroll
            for (int j = 0; j < 3; j++) {
                const int row = y + r - 1, column = x + j - 1;
                if (row >= 0 && row < h && column >= 0 && column < w)
                    sum = fmaf(plane[row * w + column], tap[r][j], sum);
            }
        to[y * w + x] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 16)
    depthwise(const float *__restrict__ in, const float *__restrict__ weights, float *__restrict__ out, int c, int h,
              int w)
{
    const int first = blockIdx.y * ROWS, count = min(ROWS, h - first), column = blockIdx.x * (4 * THREADS);
    const bool down = blockIdx.y % 2 == 0 || w % 4 != 0;
    const float *plane = in + blockIdx.z * h * w;
    float *to = out + blockIdx.z * h * w;
    float tap[3][3];
#pragma unroll
    for (int r = 0; r < 3; r++)
#pragma unroll
        for (int j = 0; j < 3; j++)
            tap[r][j] = __ldg(weights + blockIdx.z % c * 9 + (down ? r : 2 - r) * 3 + j);
    if (w % 4 == 0) {
        march4(plane, to, h, w, column + 4 * threadIdx.x, down ? first : first + count - 1, count, down ? 1 : -1, tap);
    } else {
        for (int x = column + threadIdx.x; x < min(column + 4 * THREADS, w); x += THREADS)
            by_elements(plane, to, h, w, x, first, count, tap);
    }
}
