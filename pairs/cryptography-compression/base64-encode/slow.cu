__constant__ char alphabet[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

// One thread a group of three bytes.
extern "C" __global__ void encode(const unsigned char *data, unsigned char *text, int n)
{
    int group = blockIdx.x * blockDim.x + threadIdx.x;
    int i = 3 * group;
    if (i >= n)
        return;
    int left = n - i;
    unsigned bits = data[i] << 16;
    if (left > 1)
        bits |= data[i + 1] << 8;
    if (left > 2)
        bits |= data[i + 2];
    text[4 * group] = alphabet[bits >> 18];
    text[4 * group + 1] = alphabet[bits >> 12 & 63];
    text[4 * group + 2] = left > 1 ? alphabet[bits >> 6 & 63] : '=';
    text[4 * group + 3] = left > 2 ? alphabet[bits & 63] : '=';
}
