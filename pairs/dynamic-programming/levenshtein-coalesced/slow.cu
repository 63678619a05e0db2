extern "C" __global__ void distance(const unsigned char *a, const unsigned char *b, int *rows, int *distances,
                                    int pairs, int m, int n)
{
    int pair = blockIdx.x * blockDim.x + threadIdx.x;
    if (pair >= pairs)
        return;
    const unsigned char *text_a = a + (size_t)pair * m;
    const unsigned char *text_b = b + (size_t)pair * n;
    int *row = rows + (size_t)pair * (m + 1);
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int above = row[j];
            int change = diagonal + (text_a[j - 1] != text_b[i - 1]);
            row[j] = min(change, min(above, row[j - 1]) + 1);
            diagonal = above;
        }
    }
    distances[pair] = row[m];
}
