#define WARPS 4
#define TEAM 8
#define TEAMS (32 / TEAM)
#define UNROLL 2
#define ALL 0xffffffffu

__device__ __forceinline__ float dot(float4 p, float4 q, float sum)
{
    sum = fmaf(p.x, q.x, sum);
    sum = fmaf(p.y, q.y, sum);
    sum = fmaf(p.z, q.z, sum);
    return fmaf(p.w, q.w, sum);
}

__device__ __forceinline__ float team_sum(float sum)
{
#pragma unroll
    for (int offset = TEAM / 2; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(ALL, sum, offset);
    return sum;
}

__device__ __forceinline__ float part(const float *__restrict__ p, const float *__restrict__ q, int k, int member)
{
    float sum = 0.0f;
    if (k % 4 == 0) {
#pragma unroll 2
        for (int j = member; j < k / 4; j += TEAM)
            sum = dot(__ldg(reinterpret_cast<const float4 *>(p) + j), __ldg(reinterpret_cast<const float4 *>(q) + j),
                      sum);
    } else {
        for (int j = member; j < k; j += TEAM)
            sum = fmaf(p[j], q[j], sum);
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
    sddmm(const int *__restrict__ offsets, const int *__restrict__ columns, const float *__restrict__ values,
          const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ out, int rows, int k)
{
    const int lane = threadIdx.x % 32, team = lane / TEAM, member = lane % TEAM;
    const int row = blockIdx.x * WARPS + threadIdx.x / 32;
    if (row >= rows)
        return;
    const int end = offsets[row + 1];
    const float *left = a + row * k;
    for (int base = offsets[row]; base < end; base += TEAMS * UNROLL) {
        float sum[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const int i = base + u * TEAMS + team;
            sum[u] = i < end ? part(left, b + __ldg(columns + i) * k, k, member) : 0.0f;
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const int i = base + u * TEAMS + team;
            sum[u] = team_sum(sum[u]);
            if (i < end && member == 0)
                out[i] = values[i] * sum[u];
        }
    }
}
