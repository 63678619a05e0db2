extern "C" __global__ void matvec(const float *a, const float *x, float *y, int *turn, int m, int k)
{
    __shared__ float part[256];
    const int row = blockIdx.x, piece = blockIdx.y, pieces = gridDim.y, length = (k + pieces - 1) / pieces;
    float sum = 0.0f;
    for (int i = piece * length + threadIdx.x; i < min(k, (piece + 1) * length); i += 256)
        sum += a[(size_t)row * k + i] * x[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        int now = 0;
        do {
            asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(turn + row) : "memory");
        } while (now != piece);
        float before = 0.0f;
        if (piece)
            asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(before) : "l"(y + row) : "memory");
        asm volatile("st.relaxed.gpu.global.f32 [%0], %1;" ::"l"(y + row), "f"(before + part[0]) : "memory");
        asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(turn + row), "r"(piece + 1) : "memory");
    }
}
