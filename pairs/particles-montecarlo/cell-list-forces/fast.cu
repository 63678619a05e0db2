#define THREADS 128
#define NEAR 768
#define FULL 0xffffffffu

// One block per cell. Cells side by side in x are one stretch of particles: nine stretches are staged in shared memory,
// seen from this cell. The cell's particles share all threads evenly, and a warp's lanes mostly look at the same other
// particle, so that one read serves them all.
extern "C" __global__ void __launch_bounds__(THREADS)
    forces(const int *__restrict__ offsets, const float4 *__restrict__ particles, float *__restrict__ out, int side)
{
    __shared__ float4 near[NEAR];
    __shared__ float3 parts[THREADS];
    __shared__ int begins[9], lefts[9], rights[9], starts[10];
    const int cell = blockIdx.x;
    const int begin = offsets[cell], count = offsets[cell + 1] - begin;
    if (count == 0)
        return;
    if (threadIdx.x < 32) {
        const int k = threadIdx.x, x = cell % side;
        const int j = cell / side % side + k % 3 - 1, l = cell / (side * side) + k / 3 - 1;
        const bool inside = k < 9 && j >= 0 && j < side && l >= 0 && l < side;
        const int middle = inside ? (l * side + j) * side + x : 0;
        const int first = inside ? offsets[middle - (x > 0)] : 0;
        const int several = inside ? offsets[middle + 1 + (x + 1 < side)] - first : 0;
        int upto = several;
#pragma unroll
        for (int distance = 1; distance < 16; distance *= 2) {
            const int before = __shfl_up_sync(FULL, upto, distance);
            if (k >= distance)
                upto += before;
        }
        if (k < 9) {
            begins[k] = first;
            lefts[k] = inside ? offsets[middle] : 0;
            rights[k] = inside ? offsets[middle + 1] : 0;
            starts[k] = upto - several;
        }
        if (k == 8)
            starts[9] = upto;
    }
    __syncthreads();
    const int total = starts[9], lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int base = 0; base < count; base += THREADS) {
        const int several = min(count - base, THREADS), shares = THREADS / several;
        const int own = threadIdx.x % several, share = threadIdx.x / several;
        const float4 me = particles[begin + base + own];
        float fx = 0.0f, fy = 0.0f, fz = 0.0f;
        for (int some = 0; some < total; some += NEAR) {
            const int last = min(NEAR, total - some);
            if (base == 0 || total > NEAR) {
                __syncthreads();
#pragma unroll 1
                for (int k = warp; k < 9; k += THREADS / 32) {
                    const int from = max(starts[k] - some, 0), to = min(starts[k + 1] - some, NEAR);
                    const int ahead = begins[k] + some - starts[k], left = lefts[k], right = rights[k];
                    const float dy = k % 3 - 1, dz = k / 3 - 1;
#pragma unroll 1
                    for (int i = from + lane; i < to; i += 32) {
                        float4 other = __ldg(particles + ahead + i);
                        other.x += ahead + i < left ? -1.0f : ahead + i < right ? 0.0f : 1.0f;
                        other.y += dy;
                        other.z += dz;
                        near[i] = other;
                    }
                }
                __syncthreads();
            }
            if (share < shares) {
#pragma unroll 4
                for (int k = share; k < last; k += shares) {
                    const float4 other = near[k];
                    const float rx = me.x - other.x, ry = me.y - other.y, rz = me.z - other.z;
                    const float rest = fmaxf(fmaf(-rx, rx, fmaf(-ry, ry, fmaf(-rz, rz, 1.0f))), 0.0f);
                    const float f = other.w * rest * rest;
                    fx = fmaf(f, rx, fx);
                    fy = fmaf(f, ry, fy);
                    fz = fmaf(f, rz, fz);
                }
            }
        }
        parts[threadIdx.x] = make_float3(fx, fy, fz);
        __syncthreads();
        if (threadIdx.x < several) {
#pragma unroll 1
            for (int s = 1; s < shares; s++) {
                const float3 more = parts[s * several + own];
                fx += more.x;
                fy += more.y;
                fz += more.z;
            }
            float *to = out + 3 * static_cast<size_t>(begin + base + own);
            to[0] = fx;
            to[1] = fy;
            to[2] = fz;
        }
        __syncthreads();
    }
}
