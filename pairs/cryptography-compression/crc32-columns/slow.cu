// Four bytes a step through four tables in shared memory, made by the block itself. Chunks are staged 64 bytes
// at a time, 16 bytes a thread in order; rows of five quads keep 16-byte reads in different banks.
#define THREADS 256
#define PITCH 5

__device__ __forceinline__ unsigned step4(unsigned crc, unsigned word, const unsigned (*table)[256])
{
    crc ^= word;
    return table[3][crc & 255u] ^ table[2][crc >> 8 & 255u] ^ table[1][crc >> 16 & 255u] ^ table[0][crc >> 24];
}

extern "C" __global__ void __launch_bounds__(THREADS)
    crc32(const unsigned char *__restrict__ data, unsigned *__restrict__ sums, int chunks, int length)
{
    __shared__ unsigned table[4][256];
    __shared__ uint4 staged[THREADS * PITCH];
    unsigned entry = threadIdx.x;
#pragma unroll
    for (int bit = 0; bit < 8; bit++)
        entry = entry >> 1 ^ (entry & 1u ? 0xEDB88320u : 0u);
    table[0][threadIdx.x] = entry;
    __syncthreads();
#pragma unroll
    for (int t = 1; t < 4; t++) {
        entry = entry >> 8 ^ table[0][entry & 255u];
        table[t][threadIdx.x] = entry;
    }
    const int first = blockIdx.x * THREADS, c = first + threadIdx.x;
    const int here = min(THREADS, chunks - first);
    unsigned crc = 0xffffffffu;
    int done = 0;
    if (length % 16 == 0) {
        const uint4 *quads = reinterpret_cast<const uint4 *>(data);
        for (; done + 64 <= length; done += 64) {
            __syncthreads();
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int quad = i * THREADS + threadIdx.x, owner = quad / 4;
                if (owner < here)
                    staged[owner * PITCH + quad % 4] =
                        __ldg(quads + (size_t)(first + owner) * (length / 16) + done / 16 + quad % 4);
            }
            __syncthreads();
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint4 part = staged[threadIdx.x * PITCH + i];
                crc = step4(crc, part.x, table);
                crc = step4(crc, part.y, table);
                crc = step4(crc, part.z, table);
                crc = step4(crc, part.w, table);
            }
        }
    }
    __syncthreads();
    if (c >= chunks)
        return;
    const unsigned char *chunk = data + (size_t)c * length;
    for (; done < length; done++)
        crc = crc >> 8 ^ table[0][(crc ^ chunk[done]) & 255u];
    sums[c] = ~crc;
}
