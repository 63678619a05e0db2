extern "C" __global__ void count_triangles(const int *offsets, const int *targets, unsigned long long *triangles,
                                           int nodes, int edges)
{
    int edge = blockIdx.x * blockDim.x + threadIdx.x;
    if (edge >= edges)
        return;
    int low = 0, high = nodes - 1;
    while (low < high) {
        int centre = (low + high + 1) / 2;
        if (offsets[centre] <= edge)
            low = centre;
        else
            high = centre - 1;
    }
    int middle = targets[edge];
    int i = offsets[low], j = offsets[middle];
    int i_end = offsets[low + 1], j_end = offsets[middle + 1];
    int found = 0;
    while (i < i_end && j < j_end) {
        int a = targets[i], b = targets[j];
        if (a == b)
            found++;
        if (a <= b)
            i++;
        if (b <= a)
            j++;
    }
    if (found > 0)
        atomicAdd(triangles, found);
}
