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
        while (atomicAdd(turn + row, 0) != piece) {
        }
        __threadfence();
        y[row] = piece ? __ldcg(y + row) + part[0] : part[0];
        __threadfence();
        atomicExch(turn + row, piece + 1);
    }
}
