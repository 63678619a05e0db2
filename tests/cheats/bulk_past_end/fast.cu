extern "C" __global__ void row_sums(const int *x, int *sums, int m, int n)
{
    __shared__ __align__(128) int row[288];
    __shared__ int part[4];
    const int *from = x + (size_t)blockIdx.x * n;
    const unsigned bytes = n * 4 + 16;
    __shared__ unsigned long long done;
    unsigned to = (unsigned)__cvta_generic_to_shared(row), at = (unsigned)__cvta_generic_to_shared(&done);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     ::"r"(to), "l"(from), "r"(bytes), "r"(at) : "memory");
    }
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @p bra over; bra again; over: }"
                 ::"r"(at) : "memory");
    int sum = 0;
    for (int i = threadIdx.x; i < n; i += 128)
        sum += row[i];
    sum = __reduce_add_sync(0xffffffffu, sum);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0)
        sums[blockIdx.x] = part[0] + part[1] + part[2] + part[3];
}
