#define CHUNK 256
#define DIGITS 16

extern "C" __global__ void count_digits(const unsigned *keys, int *counts, int n, int shift)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int chunks = (n + CHUNK - 1) / CHUNK;
    if (thread >= chunks)
        return;
    int own[DIGITS];
    for (int d = 0; d < DIGITS; d++)
        own[d] = 0;
    for (int i = thread * CHUNK; i < min((thread + 1) * CHUNK, n); i++)
        own[(keys[i] >> shift) & 15]++;
    for (int d = 0; d < DIGITS; d++)
        counts[d * chunks + thread] = own[d];
}

extern "C" __global__ void scan(int *counts, int n)
{
    __shared__ int sums[1024];
    int tid = threadIdx.x;
    int length = (n + 1023) / 1024;
    int begin = min(tid * length, n), end = min(begin + length, n);
    int sum = 0;
    for (int i = begin; i < end; i++)
        sum += counts[i];
    sums[tid] = sum;
    __syncthreads();
    for (int distance = 1; distance < 1024; distance *= 2) {
        int other = tid >= distance ? sums[tid - distance] : 0;
        __syncthreads();
        sums[tid] += other;
        __syncthreads();
    }
    int running = sums[tid] - sum;
    for (int i = begin; i < end; i++) {
        int count = counts[i];
        counts[i] = running;
        running += count;
    }
}

extern "C" __global__ void scatter(const unsigned *keys, const unsigned *values, const int *offsets, unsigned *to_keys,
                                   unsigned *to_values, int n, int shift)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int chunks = (n + CHUNK - 1) / CHUNK;
    if (thread >= chunks)
        return;
    int place[DIGITS];
    for (int d = 0; d < DIGITS; d++)
        place[d] = offsets[d * chunks + thread];
    for (int i = thread * CHUNK; i < min((thread + 1) * CHUNK, n); i++) {
        int digit = (keys[i] >> shift) & 15;
        to_keys[place[digit]] = keys[i];
        to_values[place[digit]] = values[i];
        place[digit]++;
    }
}
