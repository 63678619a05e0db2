#define CHUNK 16384
#define STAGES 6

__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void wait(unsigned barrier, unsigned parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}\n" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ __forceinline__ void load(unsigned to, const unsigned char *from, unsigned bytes, unsigned barrier)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

__device__ __forceinline__ void store(unsigned char *to, unsigned from, unsigned bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// One thread moves chunks of pages through a ring in shared memory; the copy engine does the rest.
extern "C" __global__ void __launch_bounds__(32)
    copy_pages(unsigned char *__restrict__ cache, const int2 *__restrict__ moves, int count, int page_bytes)
{
    extern __shared__ __align__(128) unsigned char room[];
    __shared__ __align__(8) unsigned long long full[STAGES];
    if (threadIdx.x > 0)
        return;
    const int per_page = (page_bytes + CHUNK - 1) / CHUNK, items = count * per_page;
    const int mine = (items - static_cast<int>(blockIdx.x) + gridDim.x - 1) / gridDim.x;
    const auto place = [&](int page, int item) {
        return cache + static_cast<size_t>(page) * page_bytes + item % per_page * CHUNK;
    };
    const auto bytes_of = [&](int item) { return min(CHUNK, page_bytes - item % per_page * CHUNK); };
    const auto load_next = [&](int number) {
        const int item = blockIdx.x + number * gridDim.x, stage = number % STAGES;
        load(shared_address(room) + stage * CHUNK, place(moves[item / per_page].x, item), bytes_of(item),
             shared_address(&full[stage]));
    };
    for (int stage = 0; stage < STAGES; stage++)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[stage])) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (int number = 0; number < min(mine, STAGES - 1); number++)
        load_next(number);
    for (int number = 0; number < mine; number++) {
        const int item = blockIdx.x + number * gridDim.x, stage = number % STAGES;
        wait(shared_address(&full[stage]), number / STAGES % 2);
        store(place(moves[item / per_page].y, item), shared_address(room) + stage * CHUNK, bytes_of(item));
        if (number + STAGES - 1 < mine) {
            asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
            load_next(number + STAGES - 1);
        }
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
