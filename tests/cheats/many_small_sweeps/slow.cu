extern "C" __global__ void least(const int *x, int *y, int rows, int cols)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    const int *own = x + (size_t)row * cols;
    int low = own[0];
    for (int j = 1; j < cols; j++)
        low = min(low, own[j]);
    for (int j = 1; j < cols; j += 16)
        low = min(low, own[j]);
    for (int j = 2; j < cols; j += 17)
        low = min(low, own[j]);
    for (int j = 3; j < cols; j += 18)
        low = min(low, own[j]);
    for (int j = 4; j < cols; j += 19)
        low = min(low, own[j]);
    for (int j = 0; j < cols; j += 20)
        low = min(low, own[j]);
    for (int j = 1; j < cols; j += 21)
        low = min(low, own[j]);
    for (int j = 2; j < cols; j += 22)
        low = min(low, own[j]);
    for (int j = 3; j < cols; j += 23)
        low = min(low, own[j]);
    for (int j = 4; j < cols; j += 24)
        low = min(low, own[j]);
    for (int j = 0; j < cols; j += 25)
        low = min(low, own[j]);
    for (int j = 1; j < cols; j += 26)
        low = min(low, own[j]);
    for (int j = 2; j < cols; j += 27)
        low = min(low, own[j]);
    for (int j = 3; j < cols; j += 28)
        low = min(low, own[j]);
    for (int j = 4; j < cols; j += 29)
        low = min(low, own[j]);
    for (int j = 0; j < cols; j += 30)
        low = min(low, own[j]);
    for (int j = 1; j < cols; j += 31)
        low = min(low, own[j]);
    for (int j = 2; j < cols; j += 32)
        low = min(low, own[j]);
    for (int j = 3; j < cols; j += 33)
        low = min(low, own[j]);
    for (int j = 4; j < cols; j += 34)
        low = min(low, own[j]);
    for (int j = 0; j < cols; j += 35)
        low = min(low, own[j]);
    for (int j = 1; j < cols; j += 36)
        low = min(low, own[j]);
    for (int j = 2; j < cols; j += 37)
        low = min(low, own[j]);
    for (int j = 3; j < cols; j += 38)
        low = min(low, own[j]);
    for (int j = 4; j < cols; j += 39)
        low = min(low, own[j]);
    for (int j = 0; j < cols; j += 40)
        low = min(low, own[j]);
    for (int j = 1; j < cols; j += 41)
        low = min(low, own[j]);
    for (int j = 2; j < cols; j += 42)
        low = min(low, own[j]);
    y[row] = low;
}
