extern "C" __global__ void align(const unsigned char *queries, const unsigned char *targets, int *rows_h, int *rows_f,
                                 int *best, int pairs, int m, int n, int match, int mismatch, int open, int extend)
{
    int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= pairs)
        return;
    const unsigned char *query = queries + (size_t)pair * m;
    const unsigned char *target = targets + (size_t)pair * n;
    int *h = rows_h + (size_t)pair * m;
    int *f = rows_f + (size_t)pair * m;
    for (int j = 0; j < m; j++) {
        h[j] = 0;
        f[j] = -open;
    }
    int highest = 0;
    for (int i = 0; i < n; i++) {
        int diagonal = 0, left = 0, e = -open;
        for (int j = 0; j < m; j++) {
            e = max(e, left - open) - extend;
            f[j] = max(f[j], h[j] - open) - extend;
            int score = diagonal + (query[j] == target[i] ? match : mismatch);
            score = max(max(score, 0), max(e, f[j]));
            diagonal = h[j];
            h[j] = score;
            left = score;
            highest = max(highest, score);
        }
    }
    best[pair] = highest;
}
