extern "C" __global__ void count(const unsigned char *text, const unsigned char *patterns, int *counts, int n, int m,
                                 int several)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + m > n)
        return;
    for (int p = 0; p < several; p++) {
        int matched = 0;
        while (matched < m && text[i + matched] == patterns[p * m + matched])
            matched++;
        if (matched == m)
            atomicAdd(&counts[p], 1);
    }
}
