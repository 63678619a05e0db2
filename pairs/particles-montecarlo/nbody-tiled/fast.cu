#define THREADS 256

extern "C" __global__ void accelerate(const float4 *bodies, float *acceleration, int n, float softening)
{
    __shared__ float4 tile[THREADS];
    const int i = blockIdx.x * THREADS + threadIdx.x;
    const float4 own = bodies[min(i, n - 1)];
    const float soft2 = softening * softening;
    float ax = 0.0f, ay = 0.0f, az = 0.0f;
    for (int start = 0; start < n; start += THREADS) {
        const int j = start + threadIdx.x;
        tile[threadIdx.x] = j < n ? bodies[j] : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        __syncthreads();
#pragma unroll 8
        for (int k = 0; k < THREADS; k++) {
            const float4 other = tile[k];
            const float dx = other.x - own.x;
            const float dy = other.y - own.y;
            const float dz = other.z - own.z;
            const float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + soft2);
            const float pull = other.w * inverse * inverse * inverse;
            ax += pull * dx;
            ay += pull * dy;
            az += pull * dz;
        }
        __syncthreads();
    }
    if (i < n) {
        acceleration[3 * i] = ax;
        acceleration[3 * i + 1] = ay;
        acceleration[3 * i + 2] = az;
    }
}
