#define THREADS 256
#define WARPS (THREADS / 32)
#define HELD 4
#define ALL 0xffffffffu

__device__ __forceinline__ float block_sum(float value, float *parts)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_xor_sync(ALL, value, offset);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
#pragma unroll
    for (int warp = 1; warp < WARPS; warp++)
        value += parts[warp];
    return value;
}

__device__ __forceinline__ float square(float value) { return value * value; }

__device__ __forceinline__ void row_held(const float4 *__restrict__ from, const float4 *__restrict__ weight,
                                         const float4 *__restrict__ bias, float4 *__restrict__ to, int cols, float eps,
                                         float (*parts)[WARPS])
{
    const int quads = cols / 4;
    float4 held[HELD];
    float sum = 0.0f;
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = threadIdx.x + u * THREADS;
        held[u] = i < quads ? __ldcs(from + i) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
#pragma unroll
    for (int u = 0; u < HELD; u++)
        sum += (held[u].x + held[u].y) + (held[u].z + held[u].w);
    const float mean = block_sum(sum, parts[0]) / cols;
    sum = 0.0f;
#pragma unroll
    for (int u = 0; u < HELD; u++)
        if (threadIdx.x + u * THREADS < quads)
            sum += (square(held[u].x - mean) + square(held[u].y - mean)) +
                   (square(held[u].z - mean) + square(held[u].w - mean));
    const float scale = rsqrtf(block_sum(sum, parts[1]) / cols + eps);
#pragma unroll
    for (int u = 0; u < HELD; u++) {
        const int i = threadIdx.x + u * THREADS;
        if (i >= quads)
            continue;
        const float4 w = __ldg(weight + i), b = __ldg(bias + i);
        __stcs(to + i, make_float4(fmaf((held[u].x - mean) * scale, w.x, b.x), fmaf((held[u].y - mean) * scale, w.y, b.y),
                                   fmaf((held[u].z - mean) * scale, w.z, b.z), fmaf((held[u].w - mean) * scale, w.w, b.w)));
    }
}

__device__ __forceinline__ void row_any(const float *__restrict__ from, const float *__restrict__ weight,
                                        const float *__restrict__ bias, float *__restrict__ to, int cols, float eps,
                                        float (*parts)[WARPS])
{
    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += THREADS)
        sum += from[i];
    const float mean = block_sum(sum, parts[0]) / cols;
    sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += THREADS)
        sum += square(from[i] - mean);
    const float scale = rsqrtf(block_sum(sum, parts[1]) / cols + eps);
    for (int i = threadIdx.x; i < cols; i += THREADS)
        to[i] = fmaf((from[i] - mean) * scale, weight[i], bias[i]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    layernorm(const float *__restrict__ in, const float *__restrict__ weight, const float *__restrict__ bias,
              float *__restrict__ out, int rows, int cols, float eps)
{
    __shared__ float parts[2][WARPS];
    const float *from = in + blockIdx.x * cols;
    float *to = out + blockIdx.x * cols;
    if (cols % 4 == 0 && cols <= 4 * HELD * THREADS)
        row_held(reinterpret_cast<const float4 *>(from), reinterpret_cast<const float4 *>(weight),
                 reinterpret_cast<const float4 *>(bias), reinterpret_cast<float4 *>(to), cols, eps, parts);
    else
        row_any(from, weight, bias, to, cols, eps, parts);
}
