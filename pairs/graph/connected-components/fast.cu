#define THREADS 256

// Loads may come from L1 and be out of date: what a node's parent once was is still above it in the same component, and
// a root that is none any more is found out by the exchange that would hook it. Everyone asks for the few
// great roots, which L1 therefore answers.
__device__ __forceinline__ int root_of(int *parents, int node)
{
    int parent = __ldca(parents + node);
    while (parent != node) {
        const int above = __ldca(parents + parent);
        if (above != parent)
            parents[node] = above;
        node = parent;
        parent = above;
    }
    return node;
}

__device__ __forceinline__ void join(int *parents, int a, int b)
{
    while (a != b) {
        const int high = max(a, b), low = min(a, b);
        const int seen = atomicCAS(parents + high, high, low);
        if (seen == high)
            break;
        a = root_of(parents, seen);
        b = low;
    }
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

// The first edges alone, those that a parent does not stand for already, leave few components.
extern "C" __global__ void __launch_bounds__(THREADS)
    link(const int *__restrict__ offsets, const int *__restrict__ targets, int *parents, int nodes)
{
    const int node = blockIdx.x * THREADS + threadIdx.x;
    if (node >= nodes)
        return;
    const int begin = offsets[node];
    const int first = begin < offsets[node + 1] ? targets[begin] : node;
    if (first > node)
        join(parents, root_of(parents, node), root_of(parents, first));
}

// Parents are lesser nodes, so that blocks, which start in order, mostly find them with their roots.
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

// Once parents are roots, a look at both ends of an edge mostly tells that it joins nothing.
extern "C" __global__ void __launch_bounds__(THREADS)
    hook(const int *__restrict__ offsets, const int *__restrict__ targets, int *parents, int nodes)
{
    const int node = blockIdx.x * THREADS + threadIdx.x;
    if (node >= nodes)
        return;
    const int end = offsets[node + 1];
    int edge = offsets[node] + 1;
    if (edge >= end)
        return;
    int above = __ldca(parents + node), target = __ldcs(targets + edge);
    while (true) {
        const int other = __ldca(parents + target);
        if (++edge < end)
            target = __ldcs(targets + edge);
        if (above != other) {
            above = root_of(parents, above);
            join(parents, above, root_of(parents, other));
        }
        if (edge >= end)
            break;
    }
}
