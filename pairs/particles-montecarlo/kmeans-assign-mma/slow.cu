// |p - c|^2 = |p|^2 - 2 p.c + |c|^2, and |p|^2 is the same for all centroids: what is compared is |c|^2 - 2 p.c,
// with the product taken four bytes at a time. Two points a thread share each centroid read from shared memory.
#define THREADS 256
#define OWN 2
#define MAX_CENTROIDS 512

__device__ __forceinline__ unsigned dot16(uint4 a, uint4 b)
{
    return __dp4a(a.w, b.w, __dp4a(a.z, b.z, __dp4a(a.y, b.y, __dp4a(a.x, b.x, 0u))));
}

extern "C" __global__ void __launch_bounds__(THREADS)
    assign(const uint4 *__restrict__ points, const uint4 *__restrict__ centroids, int *__restrict__ labels, int n, int k)
{
    __shared__ uint4 centre[MAX_CENTROIDS];
    __shared__ int norm[MAX_CENTROIDS];
    for (int c = threadIdx.x; c < k; c += THREADS) {
        const uint4 v = __ldg(centroids + c);
        centre[c] = v;
        norm[c] = dot16(v, v);
    }
    __syncthreads();
    const int first = blockIdx.x * THREADS * OWN + threadIdx.x;
    uint4 point[OWN];
    int best[OWN], nearest[OWN];
#pragma unroll
    for (int m = 0; m < OWN; m++) {
        point[m] = __ldg(points + min(first + m * THREADS, n - 1));
        best[m] = 0;
        nearest[m] = 0x7fffffff;
    }
#pragma unroll 4
    for (int c = 0; c < k; c++) {
        const uint4 v = centre[c];
        const int base = norm[c];
#pragma unroll
        for (int m = 0; m < OWN; m++) {
            const int score = base - 2 * (int)dot16(point[m], v);
            if (score < nearest[m]) {
                nearest[m] = score;
                best[m] = c;
            }
        }
    }
#pragma unroll
    for (int m = 0; m < OWN; m++)
        if (first + m * THREADS < n)
            labels[first + m * THREADS] = best[m];
}
