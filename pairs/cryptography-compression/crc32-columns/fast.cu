#define THREADS 1024
#define PITCH 5
#define TABLE (256 * 32)

// The tables' entries for a lane lie in one bank: index * 32 + lane.
__device__ __forceinline__ unsigned entry_at(const char *column, int table, unsigned place)
{
    return *reinterpret_cast<const unsigned *>(column + table * TABLE * 4 + (place & 0x7f80));
}

__device__ __forceinline__ unsigned step4(unsigned crc, unsigned word, const char *column)
{
    crc ^= word;
    return entry_at(column, 3, crc << 7) ^ entry_at(column, 2, crc >> 1) ^ entry_at(column, 1, crc >> 9) ^
           entry_at(column, 0, crc >> 17);
}

// Resident blocks of 1024 chunks at a time, of which 64 bytes each are staged, 16 bytes a thread in order; rows of five
// quads keep 16-byte reads in different banks.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    crc32(const unsigned char *__restrict__ data, unsigned *__restrict__ sums, int chunks, int length)
{
    extern __shared__ __align__(16) uint4 staged[];
    unsigned *tables = reinterpret_cast<unsigned *>(staged + THREADS * PITCH);
    const int lane = threadIdx.x % 32;
    const char *column = reinterpret_cast<const char *>(tables + lane);
    for (int i = threadIdx.x / 32; i < 256; i += THREADS / 32) {
        unsigned entry = i;
#pragma unroll
        for (int bit = 0; bit < 8; bit++)
            entry = entry >> 1 ^ (entry & 1u ? 0xEDB88320u : 0u);
        tables[i * 32 + lane] = entry;
    }
    __syncthreads();
    for (int i = threadIdx.x / 32; i < 256; i += THREADS / 32) {
        unsigned entry = tables[i * 32 + lane];
#pragma unroll
        for (int t = 1; t < 4; t++) {
            entry = entry >> 8 ^ entry_at(column, 0, entry << 7);
            tables[t * TABLE + i * 32 + lane] = entry;
        }
    }
    const uint4 *quads = reinterpret_cast<const uint4 *>(data);
    const int whole = length % 16 == 0 ? length / 64 : 0;
    for (int first = blockIdx.x * THREADS; first < chunks; first += gridDim.x * THREADS) {
        const int c = first + threadIdx.x, here = min(THREADS, chunks - first);
        unsigned crc = 0xffffffffu;
        uint4 next[4];
        auto fetch = [&](int part) {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int quad = i * THREADS + threadIdx.x, owner = quad / 4;
                if (owner < here)
                    next[i] = __ldcs(quads + (size_t)(first + owner) * (length / 16) + part * 4 + quad % 4);
            }
        };
        if (whole > 0)
            fetch(0);
        for (int part = 0; part < whole; part++) {
            __syncthreads();
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int quad = i * THREADS + threadIdx.x;
                if (quad / 4 < here)
                    staged[quad / 4 * PITCH + quad % 4] = next[i];
            }
            __syncthreads();
            if (part + 1 < whole)
                fetch(part + 1);
            if (c < chunks)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    const uint4 words = staged[threadIdx.x * PITCH + i];
                    crc = step4(crc, words.x, column);
                    crc = step4(crc, words.y, column);
                    crc = step4(crc, words.z, column);
                    crc = step4(crc, words.w, column);
                }
        }
        __syncthreads();
        if (c < chunks) {
            const unsigned char *chunk = data + (size_t)c * length;
            for (int done = whole * 64; done < length; done++)
                crc = crc >> 8 ^ entry_at(column, 0, (crc ^ chunk[done]) << 7);
            sums[c] = ~crc;
        }
    }
}
