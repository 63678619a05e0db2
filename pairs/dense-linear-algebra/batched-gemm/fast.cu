#include <cuda_pipeline.h>

#define WIDTH 32
#define PITCH (WIDTH + 4)
#define TEAM 64
#define TEAMS 2
#define THREADS (TEAM * TEAMS)

__device__ __forceinline__ void copy(float (*to)[PITCH], const float *__restrict__ from, int member)
{
#pragma unroll
    for (int item = member; item < WIDTH * WIDTH / 4; item += TEAM)
        __pipeline_memcpy_async(&to[item / 8][item % 8 * 4], from + item * 4, 16);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    batched_gemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int batch)
{
    __shared__ __align__(16) float left[TEAMS][WIDTH][PITCH];
    __shared__ __align__(16) float right[TEAMS][WIDTH][PITCH];
    const int team = threadIdx.x / TEAM, member = threadIdx.x % TEAM;
    const int matrix = blockIdx.x * TEAMS + team;
    const size_t base = (size_t)matrix * WIDTH * WIDTH;
    if (matrix < batch) {
        copy(left[team], a + base, member);
        copy(right[team], b + base, member);
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    if (matrix >= batch)
        return;

    const int y = member / 8, x = member % 8 * 4;
    float sum[4][4] = {};
#pragma unroll
    for (int i = 0; i < WIDTH; i += 4) {
        float4 p[4], q[4];
#pragma unroll
        for (int r = 0; r < 4; r++)
            p[r] = *reinterpret_cast<const float4 *>(&left[team][y + 8 * r][i]);
#pragma unroll
        for (int s = 0; s < 4; s++)
            q[s] = *reinterpret_cast<const float4 *>(&right[team][i + s][x]);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const float value[4] = {p[r].x, p[r].y, p[r].z, p[r].w};
#pragma unroll
            for (int s = 0; s < 4; s++) {
                sum[r][0] = fmaf(value[s], q[s].x, sum[r][0]);
                sum[r][1] = fmaf(value[s], q[s].y, sum[r][1]);
                sum[r][2] = fmaf(value[s], q[s].z, sum[r][2]);
                sum[r][3] = fmaf(value[s], q[s].w, sum[r][3]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < 4; r++)
        __stcs(reinterpret_cast<float4 *>(c + base + (y + 8 * r) * WIDTH + x),
               make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]));
}
