// OWN bodies a thread: each one read from shared memory pulls at all of them, and several roots are under way
// at once. The root is the hardware's own, without the care for tiny numbers that the softening rules out.
#define THREADS 128
#define OWN 2

__device__ __forceinline__ float inverse_root(float x)
{
    float y;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    accelerate(const float4 *__restrict__ bodies, float *__restrict__ acceleration, int n, float softening)
{
    __shared__ float4 tile[2][THREADS];
    const int first = blockIdx.x * THREADS * OWN + threadIdx.x;
    const float soft2 = softening * softening;
    float4 own[OWN];
    float3 sum[OWN];
#pragma unroll
    for (int m = 0; m < OWN; m++) {
        own[m] = __ldg(bodies + min(first + m * THREADS, n - 1));
        sum[m] = make_float3(0.0f, 0.0f, 0.0f);
    }
    const float4 nothing = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 ahead = threadIdx.x < n ? __ldg(bodies + threadIdx.x) : nothing;
    for (int start = 0, side = 0; start < n; start += THREADS, side ^= 1) {
        tile[side][threadIdx.x] = ahead;
        const int j = start + THREADS + threadIdx.x;
        ahead = j < n ? __ldg(bodies + j) : nothing;
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < THREADS; k++) {
            const float4 other = tile[side][k];
#pragma unroll
            for (int m = 0; m < OWN; m++) {
                const float dx = other.x - own[m].x, dy = other.y - own[m].y, dz = other.z - own[m].z;
                const float inverse = inverse_root(dx * dx + (dy * dy + (dz * dz + soft2)));
                const float pull = other.w * inverse * (inverse * inverse);
                sum[m].x += pull * dx;
                sum[m].y += pull * dy;
                sum[m].z += pull * dz;
            }
        }
    }
#pragma unroll
    for (int m = 0; m < OWN; m++) {
        const int i = first + m * THREADS;
        if (i < n) {
            acceleration[3 * i] = sum[m].x;
            acceleration[3 * i + 1] = sum[m].y;
            acceleration[3 * i + 2] = sum[m].z;
        }
    }
}
