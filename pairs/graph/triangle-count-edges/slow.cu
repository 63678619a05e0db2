extern "C" __global__ void count_triangles(const int *offsets, const int *targets, unsigned long long *triangles,
                                           int nodes)
{
    int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes)
        return;
    unsigned long long found = 0;
    for (int edge = offsets[node]; edge < offsets[node + 1]; edge++) {
        int middle = targets[edge];
        int i = offsets[node], j = offsets[middle];
        while (i < offsets[node + 1] && j < offsets[middle + 1]) {
            int a = targets[i], b = targets[j];
            if (a == b)
                found++;
            if (a <= b)
                i++;
            if (b <= a)
                j++;
        }
    }
    atomicAdd(triangles, found);
}
