extern "C" __global__ void add_item(const int *weights, const int *worths, const int *before, int *best, int item,
                                    int items, int capacity)
{
    int room = blockIdx.x * blockDim.x + threadIdx.x;
    if (room > capacity)
        return;
    int sack = blockIdx.y;
    int weight = weights[sack * items + item];
    int at = sack * (capacity + 1) + room;
    int value = before[at];
    if (room >= weight)
        value = max(value, before[at - weight] + worths[sack * items + item]);
    best[at] = value;
}
