#define THREADS 128
#define LANES 8
#define ROUND (THREADS / LANES)
#define NEAR 512
#define FULL 0xffffffffu

// One block per cell: the particles around are staged in shared memory, seen from this cell; eight lanes per particle.
extern "C" __global__ void __launch_bounds__(THREADS)
    forces(const int *__restrict__ offsets, const float4 *__restrict__ particles, float *__restrict__ out, int side)
{
    __shared__ float4 near[NEAR];
    __shared__ int begins[27], starts[28];
    const int cell = blockIdx.x;
    const int begin = offsets[cell], count = offsets[cell + 1] - begin;
    if (count == 0)
        return;
    const int x = cell % side, y = cell / side % side, z = cell / (side * side);
    if (threadIdx.x < 32) {
        const int k = threadIdx.x;
        const int i = x + k % 3 - 1, j = y + k / 3 % 3 - 1, l = z + k / 9 - 1;
        const bool inside = k < 27 && i >= 0 && i < side && j >= 0 && j < side && l >= 0 && l < side;
        const int other = inside ? (l * side + j) * side + i : 0;
        const int first = inside ? offsets[other] : 0, several = inside ? offsets[other + 1] - first : 0;
        int upto = several;
#pragma unroll
        for (int distance = 1; distance < 32; distance *= 2) {
            const int before = __shfl_up_sync(FULL, upto, distance);
            if (k >= distance)
                upto += before;
        }
        if (k < 27) {
            begins[k] = first;
            starts[k] = upto - several;
        }
        if (k == 27)
            starts[27] = upto;
    }
    __syncthreads();
    const int total = starts[27], lane = threadIdx.x % LANES;
    for (int base = 0; base < count; base += ROUND) {
        const int own = base + threadIdx.x / LANES;
        const float4 me = particles[begin + min(own, count - 1)];
        float fx = 0.0f, fy = 0.0f, fz = 0.0f;
        for (int some = 0; some < total; some += NEAR) {
            const int last = min(NEAR, total - some);
            if (base == 0 || total > NEAR) {
                __syncthreads();
                for (int k = threadIdx.x; k < last; k += THREADS) {
                    int low = 0;
#pragma unroll
                    for (int step = 16; step > 0; step /= 2)
                        if (low + step < 27 && starts[low + step] <= some + k)
                            low += step;
                    float4 other = __ldg(particles + begins[low] + some + k - starts[low]);
                    other.x += low % 3 - 1;
                    other.y += low / 3 % 3 - 1;
                    other.z += low / 9 - 1;
                    near[k] = other;
                }
                __syncthreads();
            }
#pragma unroll 4
            for (int k = lane; k < last; k += LANES) {
                const float4 other = near[k];
                const float rx = me.x - other.x, ry = me.y - other.y, rz = me.z - other.z;
                const float rest = fmaxf(1.0f - (rx * rx + ry * ry + rz * rz), 0.0f);
                const float f = other.w * rest * rest;
                fx += f * rx;
                fy += f * ry;
                fz += f * rz;
            }
        }
#pragma unroll
        for (int offset = LANES / 2; offset > 0; offset /= 2) {
            fx += __shfl_down_sync(FULL, fx, offset, LANES);
            fy += __shfl_down_sync(FULL, fy, offset, LANES);
            fz += __shfl_down_sync(FULL, fz, offset, LANES);
        }
        if (lane == 0 && own < count) {
            float *to = out + 3 * static_cast<size_t>(begin + own);
            to[0] = fx;
            to[1] = fy;
            to[2] = fz;
        }
    }
}
