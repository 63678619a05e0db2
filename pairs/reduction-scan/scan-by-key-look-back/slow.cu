#define THREADS 512
#define FULL 0xffffffffu

// A tile: sums since the last head or the tile's start; what the tile adds to the next one, and where its first head
// is.
extern "C" __global__ void __launch_bounds__(THREADS)
    scan_tile(const int *__restrict__ keys, const int *__restrict__ values, int *__restrict__ sums,
              int *__restrict__ totals, int *__restrict__ first_heads, int n)
{
    __shared__ int warp_sums[THREADS / 32], warp_heads[THREADS / 32], first_head;
    const int i = blockIdx.x * THREADS + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0)
        first_head = THREADS;
    int sum = i < n ? values[i] : 0;
    int head = i < n && (i == 0 || keys[i] != keys[i - 1]);
    const int starts = head;
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        const int left = __shfl_up_sync(FULL, sum, distance), left_head = __shfl_up_sync(FULL, head, distance);
        if (lane >= distance) {
            sum += head ? 0 : left;
            head |= left_head;
        }
    }
    if (lane == 31) {
        warp_sums[warp] = sum;
        warp_heads[warp] = head;
    }
    __syncthreads();
    if (starts)
        atomicMin(&first_head, static_cast<int>(threadIdx.x));
    int before = 0;
    for (int w = 0; w < warp; w++)
        before = warp_sums[w] + (warp_heads[w] ? 0 : before);
    if (!head)
        sum += before;
    if (i < n)
        sums[i] = sum;
    __syncthreads();
    if (threadIdx.x == THREADS - 1) {
        totals[blockIdx.x] = sum;
        first_heads[blockIdx.x] = first_head;
    }
}

// One block: what reaches each tile from those before it, tile by tile in pieces.
extern "C" __global__ void __launch_bounds__(THREADS)
    carry(const int *__restrict__ totals, const int *__restrict__ first_heads, int *__restrict__ carries, int tiles)
{
    __shared__ int sums[THREADS], heads[THREADS];
    const int length = (tiles + THREADS - 1) / THREADS;
    const int begin = min(static_cast<int>(threadIdx.x) * length, tiles), end = min(begin + length, tiles);
    int sum = 0, head = 0;
    for (int t = begin; t < end; t++) {
        const int own = first_heads[t] < THREADS;
        sum = totals[t] + (own ? 0 : sum);
        head |= own;
    }
    sums[threadIdx.x] = sum;
    heads[threadIdx.x] = head;
    __syncthreads();
    int before = 0;
    for (int k = threadIdx.x - 1; k >= 0; k--) {
        before += sums[k];
        if (heads[k])
            break;
    }
    for (int t = begin; t < end; t++) {
        carries[t] = before;
        before = totals[t] + (first_heads[t] < THREADS ? 0 : before);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    add(int *__restrict__ sums, const int *__restrict__ carries, const int *__restrict__ first_heads, int n)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (i < n && static_cast<int>(threadIdx.x) < first_heads[blockIdx.x])
        sums[i] += carries[blockIdx.x];
}
