extern "C" __global__ void diagonal(const unsigned char *a, const unsigned char *b, const int *before_last, const int *last,
                                    int *current, int *scores, int k, int n, int m, int match, int mismatch, int gap)
{
    int i = max(0, k - m) + blockIdx.x * blockDim.x + threadIdx.x;
    if (i > min(n, k))
        return;
    int j = k - i;
    int score;
    if (i == 0 || j == 0) {
        score = -gap * k;
    } else {
        score = before_last[i - 1] + (a[i - 1] == b[j - 1] ? match : mismatch);
        score = max(score, max(last[i - 1], last[i]) - gap);
    }
    current[i] = score;
    if (i == n)
        scores[j] = score;
}
