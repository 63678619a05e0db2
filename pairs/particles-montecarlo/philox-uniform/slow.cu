extern "C" __global__ void generate(float *out, unsigned key_low, unsigned key_high, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned counter[4] = {(unsigned)i / 4, 0, 0, 0};
    unsigned key[2] = {key_low, key_high};
    for (int round = 0; round < 10; round++) {
        unsigned long long a = (unsigned long long)0xD2511F53u * counter[0];
        unsigned long long b = (unsigned long long)0xCD9E8D57u * counter[2];
        unsigned next[4];
        next[0] = (unsigned)(b >> 32) ^ counter[1] ^ key[0];
        next[1] = (unsigned)b;
        next[2] = (unsigned)(a >> 32) ^ counter[3] ^ key[1];
        next[3] = (unsigned)a;
        for (int k = 0; k < 4; k++)
            counter[k] = next[k];
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    out[i] = (counter[i % 4] >> 8) * (1.0f / 16777216.0f);
}
