extern "C" __global__ void argmax(const float *x, int *first, int m, int n)
{
    const float *row = x + (size_t)blockIdx.x * n;
    int best = threadIdx.x < n ? threadIdx.x : 0;
    for (int i = best + 32; i < n; i += 32)
        if (row[i] > row[best])
            best = i;
    float most = row[best];
    for (int offset = 16; offset > 0; offset /= 2) {
        float other = __shfl_xor_sync(0xffffffffu, most, offset);
        int place = __shfl_xor_sync(0xffffffffu, best, offset);
        if (other > most) {
            most = other;
            best = place;
        }
    }
    if (threadIdx.x == 0)
        first[blockIdx.x] = best;
}
