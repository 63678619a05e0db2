extern "C" __global__ void longest_run(const int *x, int *result, int n)
{
    int best = 0;
    for (int i = 0, run = 0; i < n; i++) {
        run = x[i] ? run + 1 : 0;
        best = max(best, run);
    }
    *result = best;
}
