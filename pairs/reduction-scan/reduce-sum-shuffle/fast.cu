#define WARPS 8

__device__ float block_sum(float value)
{
    __shared__ float part[WARPS];
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x < WARPS ? part[threadIdx.x] : 0.0f;
    if (threadIdx.x < 32)
        for (int offset = WARPS / 2; offset > 0; offset /= 2)
            value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    reduce(const float *__restrict__ values, float *__restrict__ sums, int n)
{
    const float4 *packed = reinterpret_cast<const float4 *>(values);
    const int stride = gridDim.x * blockDim.x;
    const int quads = n / 4;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (; i + 3 * stride < quads; i += 4 * stride) {
        float4 load[4];
#pragma unroll
        for (int u = 0; u < 4; u++)
            load[u] = packed[i + u * stride];
#pragma unroll
        for (int u = 0; u < 4; u++) {
            sum.x += load[u].x;
            sum.y += load[u].y;
            sum.z += load[u].z;
            sum.w += load[u].w;
        }
    }
    for (; i < quads; i += stride) {
        float4 load = packed[i];
        sum.x += load.x;
        sum.y += load.y;
        sum.z += load.z;
        sum.w += load.w;
    }
    float total = (sum.x + sum.y) + (sum.z + sum.w);
    if (blockIdx.x == 0 && threadIdx.x < n % 4)
        total += values[quads * 4 + threadIdx.x];
    total = block_sum(total);
    if (threadIdx.x == 0)
        sums[blockIdx.x] = total;
}
