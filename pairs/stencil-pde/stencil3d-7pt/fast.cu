#define PLANES 16

__device__ __forceinline__ float4 read4(const float *__restrict__ in, size_t at)
{
    return __ldg(reinterpret_cast<const float4 *>(in + at));
}

__device__ __forceinline__ void march4(const float *__restrict__ in, float *__restrict__ out, int depth, int height,
                                       int width, int x, int y, int first, float centre, float side)
{
    const size_t plane = (size_t)height * width;
    const int last = min(first + PLANES, depth);
    size_t at = (size_t)first * plane + (size_t)y * width + x;
    const bool inner = y > 0 && y < height - 1;
    float4 below = read4(in, first > 0 ? at - plane : at);
    float4 here = read4(in, at);
#pragma unroll 4
    for (int z = first; z < last; z++, at += plane) {
        const float4 above = read4(in, z + 1 < depth ? at + plane : at);
        float4 result = here;
        if (inner && z > 0 && z < depth - 1) {
            const float4 north = read4(in, at - width);
            const float4 south = read4(in, at + width);
            const float left = x > 0 ? __ldg(in + at - 1) : 0.0f;
            const float right = x + 4 < width ? __ldg(in + at + 4) : 0.0f;
            if (x > 0)
                result.x = centre * here.x + side * (left + here.y + north.x + south.x + below.x + above.x);
            result.y = centre * here.y + side * (here.x + here.z + north.y + south.y + below.y + above.y);
            result.z = centre * here.z + side * (here.y + here.w + north.z + south.z + below.z + above.z);
            if (x + 4 < width)
                result.w = centre * here.w + side * (here.z + right + north.w + south.w + below.w + above.w);
        }
        *reinterpret_cast<float4 *>(out + at) = result;
        below = here;
        here = above;
    }
}

__device__ void march1(const float *__restrict__ in, float *__restrict__ out, int depth, int height, int width, int x,
                       int y, int first, float centre, float side)
{
    const size_t plane = (size_t)height * width;
    const int last = min(first + PLANES, depth);
    const bool inner = x > 0 && x < width - 1 && y > 0 && y < height - 1;
    size_t at = (size_t)first * plane + (size_t)y * width + x;
    for (int z = first; z < last; z++, at += plane) {
        float result = in[at];
        if (inner && z > 0 && z < depth - 1)
            result = centre * result + side * (in[at - 1] + in[at + 1] + in[at - width] + in[at + width] +
                                               in[at - plane] + in[at + plane]);
        out[at] = result;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    stencil7(const float *__restrict__ in, float *__restrict__ out, int depth, int height, int width, float centre,
             float side)
{
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    const int first = blockIdx.z * PLANES;
    if (y >= height)
        return;
    const int column = blockIdx.x * 128;
    if (width % 4 == 0) {
        const int x = column + 4 * threadIdx.x;
        if (x < width)
            march4(in, out, depth, height, width, x, y, first, centre, side);
    } else {
        for (int x = column + threadIdx.x; x < min(column + 128, width); x += 32)
            march1(in, out, depth, height, width, x, y, first, centre, side);
    }
}
