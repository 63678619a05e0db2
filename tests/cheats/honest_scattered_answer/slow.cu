extern "C" __global__ void f(const int *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int place = (i | 255) < n ? (i & ~255) | ((i * 77 ^ 45) & 255) : i;
    int word = x[i];
    y[place] = word;
}
