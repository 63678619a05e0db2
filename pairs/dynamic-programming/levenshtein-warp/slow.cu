// The rows lie across pairs, so that neighbouring threads read and write neighbouring elements.
extern "C" __global__ void distance(const unsigned char *a, const unsigned char *b, int *rows, int *distances,
                                    int pairs, int m, int n)
{
    int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= pairs)
        return;
    const unsigned char *text_a = a + (size_t)pair * m;
    const unsigned char *text_b = b + (size_t)pair * n;
    int *row = rows + pair;
    for (int j = 0; j <= m; j++)
        row[(size_t)j * pairs] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = i - 1, left = i, letter = text_b[i - 1];
        for (int j = 1; j <= m; j++) {
            int above = row[(size_t)j * pairs];
            left = min(diagonal + (text_a[j - 1] != letter), min(above, left) + 1);
            row[(size_t)j * pairs] = left;
            diagonal = above;
        }
    }
    distances[pair] = row[(size_t)m * pairs];
}
