#define THREADS 64
#define LANES 4
#define ROWS 8

struct Row {
    float value[6];
};

__device__ __forceinline__ Row read_row(const float *__restrict__ plane, int y, int x, int h, int w)
{
    Row row = {};
    if (y < 0 || y >= h)
        return row;
    const float *from = plane + y * w + x;
    if (w % 4 == 0) {
        const float4 middle = *reinterpret_cast<const float4 *>(from);
        row.value[1] = middle.x;
        row.value[2] = middle.y;
        row.value[3] = middle.z;
        row.value[4] = middle.w;
    } else {
#pragma unroll
        for (int s = 0; s < 4; s++)
            row.value[s + 1] = x + s < w ? from[s] : 0.0f;
    }
    row.value[0] = x > 0 ? from[-1] : 0.0f;
    row.value[5] = x + 4 < w ? from[4] : 0.0f;
    return row;
}

__device__ __forceinline__ void add_row(float *sum, const Row &row, const float *tap)
{
#pragma unroll
    for (int s = 0; s < 4; s++)
#pragma unroll
        for (int j = 0; j < 3; j++)
            sum[s] = fmaf(row.value[s + j], tap[j], sum[s]);
}

extern "C" __global__ void __launch_bounds__(THREADS *LANES)
    depthwise(const float *__restrict__ in, const float *__restrict__ weights, float *__restrict__ out, int c, int h,
              int w)
{
    const int x = (blockIdx.x * THREADS + threadIdx.x) * 4;
    const int first = (blockIdx.y * LANES + threadIdx.y) * ROWS;
    if (x >= w || first >= h)
        return;
    const float *plane = in + blockIdx.z * h * w;
    float *to = out + blockIdx.z * h * w;
    float tap[9];
#pragma unroll
    for (int i = 0; i < 9; i++)
        tap[i] = __ldg(weights + blockIdx.z % c * 9 + i);

    Row above = read_row(plane, first - 1, x, h, w);
    Row here = read_row(plane, first, x, h, w);
#pragma unroll
    for (int step = 0; step < ROWS; step++) {
        const int y = first + step;
        if (y >= h)
            break;
        const Row below = read_row(plane, y + 1, x, h, w);
        float sum[4] = {};
        add_row(sum, above, tap);
        add_row(sum, here, tap + 3);
        add_row(sum, below, tap + 6);
        if (w % 4 == 0)
            __stcs(reinterpret_cast<float4 *>(to + y * w + x), make_float4(sum[0], sum[1], sum[2], sum[3]));
        else
#pragma unroll
            for (int s = 0; s < 4; s++)
                if (x + s < w)
                    to[y * w + x + s] = sum[s];
        above = here;
        here = below;
    }
}
