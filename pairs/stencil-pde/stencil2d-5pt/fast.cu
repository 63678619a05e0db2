#define ROWS 8
#define THREADS 128

__device__ __forceinline__ float4 read4(const float *row, int x)
{
    return *reinterpret_cast<const float4 *>(row + x);
}

__device__ void march4(const float *__restrict__ in, float *__restrict__ out, int height, int width, int x,
                       int first, float centre, float side)
{
    const int last = min(first + ROWS, height);
    float4 above = read4(in + (size_t)max(first - 1, 0) * width, x);
    float4 here = read4(in + (size_t)first * width, x);
#pragma unroll
    for (int step = 0; step < ROWS; step++) {
        const int y = first + step;
        if (y >= last)
            break;
        const float *row = in + (size_t)y * width;
        const float4 below = read4(in + (size_t)min(y + 1, height - 1) * width, x);
        const float left = x > 0 ? row[x - 1] : 0.0f;
        const float right = x + 4 < width ? row[x + 4] : 0.0f;
        float4 result = here;
        if (y > 0 && y < height - 1) {
            if (x > 0)
                result.x = centre * here.x + side * (above.x + below.x + left + here.y);
            result.y = centre * here.y + side * (above.y + below.y + here.x + here.z);
            result.z = centre * here.z + side * (above.z + below.z + here.y + here.w);
            if (x + 4 < width)
                result.w = centre * here.w + side * (above.w + below.w + here.z + right);
        }
        *reinterpret_cast<float4 *>(out + (size_t)y * width + x) = result;
        above = here;
        here = below;
    }
}

__device__ void march1(const float *__restrict__ in, float *__restrict__ out, int height, int width, int x,
                       int first, float centre, float side)
{
    const int last = min(first + ROWS, height);
    for (int y = first; y < last; y++) {
        const size_t at = (size_t)y * width + x;
        float result = in[at];
        if (y > 0 && x > 0 && y < height - 1 && x < width - 1)
            result = centre * in[at] + side * (in[at - width] + in[at + width] + in[at - 1] + in[at + 1]);
        out[at] = result;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    stencil(const float *__restrict__ in, float *__restrict__ out, int height, int width, float centre,
            float side)
{
    const int first = blockIdx.y * ROWS;
    const int column = blockIdx.x * (4 * THREADS);
    if (width % 4 == 0) {
        const int x = column + 4 * threadIdx.x;
        if (x < width)
            march4(in, out, height, width, x, first, centre, side);
    } else {
        for (int x = column + threadIdx.x; x < min(column + 4 * THREADS, width); x += THREADS)
            march1(in, out, height, width, x, first, centre, side);
    }
}
