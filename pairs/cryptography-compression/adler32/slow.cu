extern "C" __global__ void checksum(const unsigned char *data, unsigned *sums, int chunks, int length)
{
    int chunk = blockIdx.x * blockDim.x + threadIdx.x;
    if (chunk >= chunks)
        return;
    unsigned a = 1, b = 0;
    for (int i = 0; i < length; i++) {
        a = (a + data[(size_t)chunk * length + i]) % 65521;
        b = (b + a) % 65521;
    }
    sums[chunk] = b << 16 | a;
}
