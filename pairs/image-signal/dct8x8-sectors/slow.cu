// A block transforms 32 squares side by side. A thread has one row of one square, then one column of it; the
// transform of eight is split into even and odd parts. Squares lie 65 words apart in shared memory, so the 32
// lanes of a warp, each in its own square, fall into different banks.
#define SQUARES 32
#define PITCH 65

__device__ __forceinline__ void transform8(float (&v)[8])
{
    const float c1 = 0.49039264f, c2 = 0.46193977f, c3 = 0.41573481f, c4 = 0.35355339f;
    const float c5 = 0.27778512f, c6 = 0.19134172f, c7 = 0.09754516f;
    const float s0 = v[0] + v[7], s1 = v[1] + v[6], s2 = v[2] + v[5], s3 = v[3] + v[4];
    const float d0 = v[0] - v[7], d1 = v[1] - v[6], d2 = v[2] - v[5], d3 = v[3] - v[4];
    const float e0 = s0 + s3, e1 = s1 + s2, e2 = s0 - s3, e3 = s1 - s2;
    v[0] = c4 * (e0 + e1);
    v[4] = c4 * (e0 - e1);
    v[2] = c2 * e2 + c6 * e3;
    v[6] = c6 * e2 - c2 * e3;
    v[1] = c1 * d0 + c3 * d1 + c5 * d2 + c7 * d3;
    v[3] = c3 * d0 - c7 * d1 - c1 * d2 - c5 * d3;
    v[5] = c5 * d0 - c1 * d1 + c7 * d2 + c3 * d3;
    v[7] = c7 * d0 - c5 * d1 + c3 * d2 - c1 * d3;
}

extern "C" __global__ void __launch_bounds__(8 * SQUARES)
    dct8x8(const float *__restrict__ image, float *__restrict__ out, int height, int width)
{
    __shared__ float squares[SQUARES * PITCH];
    const int line = threadIdx.y;
    const int x = (blockIdx.x * SQUARES + threadIdx.x) * 8;
    const size_t at = (size_t)(blockIdx.y * 8 + line) * width + x;
    float *square = squares + threadIdx.x * PITCH;
    const bool inside = x < width;
    float v[8];
    if (inside) {
        const float4 low = __ldg(reinterpret_cast<const float4 *>(image + at));
        const float4 high = __ldg(reinterpret_cast<const float4 *>(image + at) + 1);
        v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
        v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
        transform8(v);
#pragma unroll
        for (int i = 0; i < 8; i++)
            square[8 * line + i] = v[i];
    }
    __syncthreads();
    if (inside) {
#pragma unroll
        for (int i = 0; i < 8; i++)
            v[i] = square[8 * i + line];
        transform8(v);
#pragma unroll
        for (int i = 0; i < 8; i++)
            square[8 * i + line] = v[i];
    }
    __syncthreads();
    if (inside) {
        const float *row = square + 8 * line;
        float4 *to = reinterpret_cast<float4 *>(out + at);
        to[0] = make_float4(row[0], row[1], row[2], row[3]);
        to[1] = make_float4(row[4], row[5], row[6], row[7]);
    }
}
