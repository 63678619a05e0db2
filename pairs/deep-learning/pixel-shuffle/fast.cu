// Eight pixels of two channels become sixteen of one row: halves of words are interleaved, not single elements moved.
extern "C" __global__ void __launch_bounds__(256)
    pixel_shuffle(const unsigned short *__restrict__ in, unsigned short *__restrict__ out, int h, int w, int count)
{
    const int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= count)
        return;
    const int wide = w % 8 == 0 ? w / 8 : w;
    const int line = item / wide, x = item - line * wide, pair = line / h, y = line - pair * h;
    const size_t from = (static_cast<size_t>(pair) * 2 * h + y) * w, other = static_cast<size_t>(h) * w;
    const size_t to = (static_cast<size_t>(pair / 2) * 2 * h + 2 * y + pair % 2) * 2 * w;
    if (w % 8 != 0) {
        out[to + 2 * x] = in[from + x];
        out[to + 2 * x + 1] = in[from + other + x];
        return;
    }
    const uint4 a = __ldcs(reinterpret_cast<const uint4 *>(in + from) + x);
    const uint4 b = __ldcs(reinterpret_cast<const uint4 *>(in + from + other) + x);
    uint4 *target = reinterpret_cast<uint4 *>(out + to) + 2 * x;
    __stcs(target, make_uint4(__byte_perm(a.x, b.x, 0x5410), __byte_perm(a.x, b.x, 0x7632),
                              __byte_perm(a.y, b.y, 0x5410), __byte_perm(a.y, b.y, 0x7632)));
    __stcs(target + 1, make_uint4(__byte_perm(a.z, b.z, 0x5410), __byte_perm(a.z, b.z, 0x7632),
                                  __byte_perm(a.w, b.w, 0x5410), __byte_perm(a.w, b.w, 0x7632)));
}
