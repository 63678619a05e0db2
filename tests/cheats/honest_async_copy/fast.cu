__device__ void fetch(float *to, const float *from, bool inside)
{
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    if (inside)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at), "l"(from) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
}

extern "C" __global__ void row_sums(const float *a, float *sums, int m, int n)
{
    __shared__ float stage[2][128];
    __shared__ float part[4];
    const float *row = a + (size_t)blockIdx.x * n;
    const int t = threadIdx.x;
    float sum = 0.0f;
    fetch(&stage[0][t], row + t, t < n);
    for (int i = t, now = 0; i < n; i += 128, now ^= 1) {
        fetch(&stage[now ^ 1][t], row + i + 128, i + 128 < n);
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        sum += stage[now][t];
    }
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (t % 32 == 0)
        part[t / 32] = sum;
    __syncthreads();
    if (t == 0)
        sums[blockIdx.x] = part[0] + part[1] + part[2] + part[3];
}
