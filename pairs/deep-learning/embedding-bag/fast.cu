#define WARPS 4
#define UNROLL 8
#define ALL 0xffffffffu

__device__ __forceinline__ void add(float4 &sum, float4 row)
{
    sum.x += row.x;
    sum.y += row.y;
    sum.z += row.z;
    sum.w += row.w;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    embedding_bag(const float *__restrict__ table, const int *__restrict__ indices, const int *__restrict__ offsets,
                  float *__restrict__ out, int bags, int dim)
{
    const int lane = threadIdx.x % 32;
    const int bag = blockIdx.x * WARPS + threadIdx.x / 32;
    if (bag >= bags)
        return;
    const int begin = offsets[bag], end = offsets[bag + 1];
    if (dim % 4 != 0) {
        for (int d = lane; d < dim; d += 32) {
            float sum = 0.0f;
            for (int i = begin; i < end; i++)
                sum += table[indices[i] * dim + d];
            out[bag * dim + d] = sum;
        }
        return;
    }
    for (int first = 0; first < dim; first += 128) {
        const int d = first + 4 * lane;
        float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        for (int base = begin; base < end; base += 32) {
            const int mine = base + lane < end ? indices[base + lane] : 0;
            const int count = min(32, end - base);
            for (int i = 0; i < count; i += UNROLL) {
                float4 held[UNROLL];
#pragma unroll
                for (int u = 0; u < UNROLL; u++) {
                    const int row = __shfl_sync(ALL, mine, i + u);
                    held[u] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
                    if (d < dim && i + u < count)
                        held[u] = __ldg(reinterpret_cast<const float4 *>(table + row * dim + d));
                }
#pragma unroll
                for (int u = 0; u < UNROLL; u++)
                    add(sum, held[u]);
            }
        }
        if (d < dim)
            __stcs(reinterpret_cast<float4 *>(out + bag * dim + d), sum);
    }
}
