extern "C" __global__ void search(const unsigned char *text, const unsigned char *pattern, unsigned char *found, int n,
                                  int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int matched = 0;
    if (i + m <= n)
        while (matched < m && text[i + matched] == pattern[matched])
            matched++;
    found[i] = matched == m;
}
