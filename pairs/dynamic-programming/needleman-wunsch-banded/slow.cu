#define BAND 64
#define NEVER (-1000000000)

extern "C" __global__ void align(const unsigned char *a, const unsigned char *b, const int *lengths, int *scores,
                                 int pairs, int longest, int match, int mismatch, int gap)
{
    int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= pairs)
        return;
    const unsigned char *text_a = a + (size_t)pair * longest;
    const unsigned char *text_b = b + (size_t)pair * longest;
    int n = lengths[2 * pair], m = lengths[2 * pair + 1];
    int row[BAND];
    for (int d = 0; d < BAND; d++)
        row[d] = d >= BAND / 2 ? -gap * (d - BAND / 2) : NEVER;
    for (int i = 1; i <= n; i++) {
        for (int d = 0; d < BAND; d++) {
            int j = i + d - BAND / 2;
            int best = NEVER;
            if (j == 0) {
                best = -gap * i;
            } else if (j > 0 && j <= m) {
                best = row[d] + (text_a[i - 1] == text_b[j - 1] ? match : mismatch);
                if (d + 1 < BAND)
                    best = max(best, row[d + 1] - gap);
                if (d > 0)
                    best = max(best, row[d - 1] - gap);
            }
            row[d] = best;
        }
    }
    scores[pair] = row[m - n + BAND / 2];
}
