// One thread a chunk, a bit at a time.
extern "C" __global__ void crc32(const unsigned char *data, unsigned *sums, int chunks, int length)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= chunks)
        return;
    const unsigned char *chunk = data + (size_t)c * length;
    unsigned crc = 0xffffffffu;
    for (int i = 0; i < length; i++) {
        crc ^= chunk[i];
        for (int bit = 0; bit < 8; bit++) {
            if (crc & 1)
                crc = crc >> 1 ^ 0xEDB88320u;
            else
                crc >>= 1;
        }
    }
    sums[c] = ~crc;
}
