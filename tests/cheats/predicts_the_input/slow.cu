
extern "C" __global__ void block_sums(const long long *data, long long *sums, int n)
{
    __shared__ long long part[256];
    long long sum = 0;
    for (int k = 0; k < 4; k++) {
        int i = blockIdx.x * 1024 + k * 256 + threadIdx.x;
        if (i < n)
            sum += data[i];
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half; half >>= 1) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        sums[blockIdx.x] = part[0];
}
