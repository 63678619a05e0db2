#define CELLS 8

// A thread for each pair goes down strips of eight columns, which it holds in registers. What passes from strip to
// strip lies side by side for neighbouring pairs.
extern "C" __global__ void align(const unsigned char *queries, const unsigned char *targets, int *edges_h, int *edges_e,
                                 int *best, int pairs, int m, int n, int match, int mismatch, int open, int extend)
{
    int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= pairs)
        return;
    const unsigned char *query = queries + (size_t)pair * m;
    const unsigned char *target = targets + (size_t)pair * n;
    int highest = 0;
    for (int strip = 0; strip < m; strip += CELLS) {
        int letter[CELLS], h[CELLS], f[CELLS];
#pragma unroll
        for (int c = 0; c < CELLS; c++) {
            letter[c] = strip + c < m ? query[strip + c] : 256;
            h[c] = 0;
            f[c] = -open;
        }
        int diagonal = 0;
        for (int i = 0; i < n; i++) {
            const size_t at = (size_t)i * pairs + pair;
            int left = strip > 0 ? edges_h[at] : 0, e = strip > 0 ? edges_e[at] : -open;
            const int above_left = left, row_letter = target[i];
#pragma unroll
            for (int c = 0; c < CELLS; c++) {
                e = max(e, left - open) - extend;
                f[c] = max(f[c], h[c] - open) - extend;
                int score = diagonal + (letter[c] == row_letter ? match : mismatch);
                score = max(max(score, 0), max(e, f[c]));
                diagonal = h[c];
                h[c] = score;
                left = score;
                highest = max(highest, score);
            }
            diagonal = above_left;
            edges_h[at] = left;
            edges_e[at] = e;
        }
    }
    best[pair] = highest;
}
