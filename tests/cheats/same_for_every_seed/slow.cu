extern "C" __global__ void any_above(const int *x, int *result, int n)
{
    int found = 0;
    for (int i = 0; i < n; i++)
        found |= x[i] > 0;
    *result = found;
}
