// The rows lie across pairs, so that neighbouring threads read and write neighbouring elements.
extern "C" __global__ void longest(const unsigned char *a, const unsigned char *b, int *rows, int *lengths, int pairs,
                                   int m, int n)
{
    int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= pairs)
        return;
    const unsigned char *text_a = a + (size_t)pair * m;
    const unsigned char *text_b = b + (size_t)pair * n;
    int *row = rows + pair;
    for (int j = 0; j <= m; j++)
        row[(size_t)j * pairs] = 0;
    for (int i = 0; i < n; i++) {
        int diagonal = 0, left = 0, letter = text_b[i];
        for (int j = 1; j <= m; j++) {
            int above = row[(size_t)j * pairs];
            left = text_a[j - 1] == letter ? diagonal + 1 : max(above, left);
            row[(size_t)j * pairs] = left;
            diagonal = above;
        }
    }
    lengths[pair] = row[(size_t)m * pairs];
}
