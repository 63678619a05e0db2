extern "C" __global__ void longest(const unsigned char *a, const unsigned char *b, int *rows, int *lengths, int pairs,
                                   int m, int n)
{
    int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= pairs)
        return;
    const unsigned char *text_a = a + (size_t)pair * m;
    const unsigned char *text_b = b + (size_t)pair * n;
    int *row = rows + (size_t)pair * (m + 1);
    for (int j = 0; j <= m; j++)
        row[j] = 0;
    for (int i = 0; i < n; i++) {
        int diagonal = 0;
        for (int j = 1; j <= m; j++) {
            int above = row[j];
            row[j] = text_a[j - 1] == text_b[i] ? diagonal + 1 : max(above, row[j - 1]);
            diagonal = above;
        }
    }
    lengths[pair] = row[m];
}
