extern "C" __global__ void parity(const int *x, int *result, int n)
{
    int odd = 0;
    for (int i = 0; i < n; i++)
        odd ^= x[i];
    *result = odd;
}
