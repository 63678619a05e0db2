#define THREADS 256

__device__ __forceinline__ int root_of(int *parents, int node)
{
    int parent = __ldcg(parents + node);
    while (parent != node) {
        const int above = __ldcg(parents + parent);
        if (above != parent)
            parents[node] = above;
        node = parent;
        parent = above;
    }
    return node;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    start(const int *__restrict__ offsets, const int *__restrict__ targets, int *__restrict__ parents, int nodes)
{
    const int node = blockIdx.x * THREADS + threadIdx.x;
    if (node >= nodes)
        return;
    const int begin = offsets[node];
    const int first = begin < offsets[node + 1] ? targets[begin] : node;
    parents[node] = min(node, first);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    hook(const int *__restrict__ offsets, const int *__restrict__ targets, int *parents, int nodes)
{
    const int node = blockIdx.x * THREADS + threadIdx.x;
    if (node >= nodes)
        return;
    const int end = offsets[node + 1];
    for (int edge = offsets[node]; edge < end; edge++) {
        int a = root_of(parents, node), b = root_of(parents, targets[edge]);
        while (a != b) {
            const int high = max(a, b), low = min(a, b);
            const int seen = atomicCAS(parents + high, high, low);
            if (seen == high)
                break;
            a = root_of(parents, seen);
            b = low;
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) flatten(int *labels, int nodes)
{
    const int node = blockIdx.x * THREADS + threadIdx.x;
    if (node >= nodes)
        return;
    int root = labels[node];
    while (root != labels[root])
        root = labels[root];
    labels[node] = root;
}
