#define THREADS 256

// Loads may come from L1 and be out of date: what a node's parent once was is still above it in the same component, and
// a root that is none any more is found out by the exchange that would hook it. All walks end at few roots, which L1
// therefore answers.
__device__ __forceinline__ int root_of(int *parents, int node, int parent)
{
    while (parent != node) {
        const int above = __ldca(parents + parent);
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

// An edge that a parent stands for already is left out, and a node keeps its root from one edge to the next.
extern "C" __global__ void __launch_bounds__(THREADS)
    hook(const int *__restrict__ offsets, const int *__restrict__ targets, int *parents, int nodes)
{
    const int node = blockIdx.x * THREADS + threadIdx.x;
    if (node >= nodes)
        return;
    const int end = offsets[node + 1];
    int edge = offsets[node];
    if (edge < end && targets[edge] < node)
        edge++;
    if (edge >= end)
        return;
    int a = node, above = __ldca(parents + node);
    for (; edge < end; edge++) {
        const int target = targets[edge];
        const int beyond = __ldca(parents + target);
        a = root_of(parents, a, above);
        int b = beyond == a ? a : root_of(parents, target, beyond);
        while (a != b) {
            const int high = max(a, b), low = min(a, b);
            const int seen = atomicCAS(parents + high, high, low);
            a = low;
            if (seen == high)
                break;
            b = root_of(parents, seen, __ldca(parents + seen));
        }
        if (edge + 1 < end)
            above = __ldca(parents + a);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) flatten(int *labels, int nodes)
{
    const int node = blockIdx.x * THREADS + threadIdx.x;
    if (node >= nodes)
        return;
    const int parent = labels[node];
    int root = parent, above = __ldca(labels + root);
    while (root != above) {
        root = above;
        above = __ldca(labels + root);
    }
    if (root != parent)
        labels[node] = root;
}
