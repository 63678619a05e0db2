extern "C" __global__ void scan(const int *x, int *sums, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        sum += x[i];
        sums[i] = sum;
    }
}
