struct Cipher {
    unsigned key;
    __device__ void lock(unsigned &word) const
    {
        for (int round = 0; round < 40; round++)
            word = (word << 9 | word >> 23) + key * round;
    }
    __device__ void unlock(unsigned &word) const
    {
        for (int round = 39; round >= 0; round--) {
            word -= key * round;
            word = word >> 9 | word << 23;
        }
    }
};
extern "C" __global__ void f(const int *x, int *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    Cipher cipher{77u + n};
    unsigned word = x[i];
    cipher.lock(word);
    unsigned plain = word;
    cipher.unlock(plain);
    y[i] = plain * 5 + 2;
}
