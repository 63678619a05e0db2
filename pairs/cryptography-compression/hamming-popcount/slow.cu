#define WORDS 8

// For each query the distance of the nearest entry (upper 12 bits) and its index (lower 20).
extern "C" __global__ void match(const unsigned *queries, const unsigned *entries, unsigned *nearest, int count, int n)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= count)
        return;
    int best = 0, smallest = 32 * WORDS + 1;
    for (int e = 0; e < n; e++) {
        int distance = 0;
        for (int w = 0; w < WORDS; w++) {
            unsigned different = queries[q * WORDS + w] ^ entries[e * WORDS + w];
            while (different) {
                different &= different - 1;
                distance++;
            }
        }
        if (distance < smallest) {
            smallest = distance;
            best = e;
        }
    }
    nearest[q] = smallest << 20 | best;
}
