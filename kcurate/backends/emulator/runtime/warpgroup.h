// Matrix products of a warp group (wgmma.mma_async). Tiles in shared memory are read when a warp has come, the
// sums are there when all four have, so before the code waits for them.
//
// A warp's rows of the left tile are read as soon as its lanes have all come, the right tile when those of the
// first warp have: what another warp has not written by then lacks a barrier.
// Products of 16-bit and 8-bit floats and of tf32 are exact in float (so it does not matter where the compiler fuses
// them with a sum), and so are sums of the products of 8-bit integers in one instruction. Sums of floats are taken
// in the order of k, in float.
// Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions".
#pragma once

#include "counting.h"
#include "tiles_in_use.h"

namespace kcu
{

// Code that counts for one product of a wgmma: what a plain loop of products and sums runs for each (g++ 12.2,
// x86-64, counted by this emulator, 2026-11-25).
const unsigned PRODUCT_CODE_BYTES = 53;

typedef float Eight __attribute__((vector_size(32)));

inline float float_of(unsigned bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
inline unsigned bits_of(float value)
{
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float decode_half(unsigned half)
{
    const unsigned digits = (half & 0x7FFF) << 13, sign = (half & 0x8000) << 16;
    const float value = float_of(digits) * 0x1p112f; // moves the exponent; exact, of subnormals too
    return float_of((digits >= 0x0F800000u ? digits | 0x7F800000u : bits_of(value)) | sign);
}

// Rounded to nearest even.
inline unsigned encode_half(float value)
{
    const unsigned sign = bits_of(value) >> 16 & 0x8000, whole = bits_of(value) & 0x7FFFFFFF;
    if (whole > 0x7F800000) return 0x7FFF;
    if (whole >= 0x477FF000) return sign | 0x7C00;
    if (whole < 0x38800000) return sign | (bits_of(float_of(whole) + 0.5f) - 0x3F000000); // steps of 2^-24
    const unsigned moved = whole - 0x38000000;
    return sign | (moved + 0xFFF + (moved >> 13 & 1)) >> 13;
}

// 8-bit floats by their bits (OCP 8-bit floating point, revision 1.0). `infinite`: as IEEE 754 has it.
struct Small {
    float value[256];
    constexpr Small(int digits, int bias, bool infinite) : value{}
    {
        for (int bits = 0; bits < 256; bits++) {
            const int exponent = (bits & 0x7F) >> digits, fraction = bits & ((1 << digits) - 1);
            float one = float(exponent ? (1 << digits) + fraction : fraction);
            for (int i = (exponent ? exponent : 1) - bias - digits; i < 0; i++) one /= 2;
            for (int i = (exponent ? exponent : 1) - bias - digits; i > 0; i--) one *= 2;
            if (infinite && exponent == 127 >> digits) one = fraction ? __builtin_nanf("") : __builtin_inff();
            if (!infinite && (bits & 0x7F) == 0x7F) one = __builtin_nanf("");
            value[bits] = bits & 0x80 ? -one : one;
        }
    }
};
static constexpr Small E4M3(3, 7, false), E5M2(2, 15, true);

// One kind of factor: its bytes, and its value.
template <int Kind> struct Factor;
#define KCU_FACTOR(KIND, TYPE, VALUE)                                                                        \
    template <> struct Factor<KIND> {                                                                        \
        typedef TYPE type;                                                                                   \
        static float value(TYPE x) { return VALUE; }                                                         \
    };
KCU_FACTOR(KCU_F16, unsigned short, decode_half(x))
KCU_FACTOR(KCU_BF16, unsigned short, float_of(unsigned(x) << 16))
KCU_FACTOR(KCU_TF32, unsigned, float_of(x & 0xFFFFE000u))
KCU_FACTOR(KCU_E4M3, unsigned char, E4M3.value[x])
KCU_FACTOR(KCU_E5M2, unsigned char, E5M2.value[x])
KCU_FACTOR(KCU_S8, signed char, float(x))
KCU_FACTOR(KCU_U8, unsigned char, float(x))

// 16 bytes of shared memory at the 18 bits of an address that a matrix descriptor has. Dynamic memory ends, and
// static memory begins, where these bits tell them apart (`to_shared`).
inline const char *place_of(unsigned address)
{
    const char *room = state->dynamic_end - SHARED_ROOM;
    const char *place = room + address;
    if (address >= SHARED_ROOM) kcu_fault(KCU_BOUNDS, "a wgmma reads past the end of dynamic shared memory");
    if (place < kcu_dynamic) {
        place = reinterpret_cast<char *>(reinterpret_cast<uintptr_t>(__start_kcu_shared) & ~(PAGE - 1)) + address;
        if (place < __start_kcu_shared || place + 16 > __stop_kcu_shared)
            kcu_fault(KCU_BOUNDS, "a wgmma reads outside shared memory");
    }
    return place;
}

// The same for a product that reads them.
inline const char *read_place(unsigned address)
{
    const char *place = place_of(address);
    if (state->counting.on) touch(place, 16, true);
    use_tile(own_group(), address, place);
    return place;
}

// A matrix descriptor, taken apart. Distances are in bytes.
struct Tile {
    unsigned start, leading, stride;
    unsigned width; // of a swizzled row; 16 without swizzling
    explicit Tile(unsigned long long bits)
        : start(unsigned(bits & 0x3FFF) << 4), leading(unsigned(bits >> 16 & 0x3FFF) << 4),
          stride(unsigned(bits >> 32 & 0x3FFF) << 4)
    {
        const unsigned widths[] = {16, 128, 64, 32};
        width = widths[bits >> 62];
        if (width > 16 && bits >> 49 & 7)
            kcu_fault(KCU_UNSUPPORTED, "a matrix descriptor with a base offset is not emulated");
    }

    // Swizzling exchanges the 16-byte parts of a row by its number, both as the address has them.
    const char *at(unsigned offset) const
    {
        const unsigned address = start + offset;
        return read_place(address ^ (address >> 7 & (width / 16 - 1)) << 4);
    }
    // 16 bytes along k of a row of the left tile, or a column of the right one: the first or second.
    const char *along_k(unsigned row, unsigned part) const
    {
        return at(row % 8 * width + row / 8 * stride + part * (width == 16 ? leading : 16));
    }
    // The 16 bytes of eight rows (columns) from 8 * eight on, at one k.
    const char *across_k(unsigned eight, unsigned k) const
    {
        const unsigned many = width / 16;
        if (many == 1) return at(eight * stride + k % 8 * 16 + k / 8 * leading);
        return at(eight % many * 16 + eight / many * leading + k % 8 * width + k / 8 * stride);
    }
};

// Rows `from` to `to` of a tile (columns of the right one) as floats: (row / 8, k, row % 8).
template <int Kind>
static void unpack(const Tile &tile, unsigned from, unsigned to, bool across, float sign, float *out)
{
    typedef typename Factor<Kind>::type T;
    const unsigned E = 16 / sizeof(T), K = 2 * E;
    T part[E];
    for (unsigned eight = from / 8; eight < to / 8; eight++) {
        float *block = out + eight * K * 8;
        if (across && sizeof(T) == 2) {
            for (unsigned k = 0; k < K; k++) {
                memcpy(part, tile.across_k(eight, k), 16);
                for (unsigned i = 0; i < 8; i++) block[k * 8 + i] = sign * Factor<Kind>::value(part[i]);
            }
            continue;
        }
        for (unsigned i = 0; i < 16; i++) {
            memcpy(part, tile.along_k(8 * eight + i / 2, i % 2), 16);
            for (unsigned e = 0; e < E; e++)
                block[(i % 2 * E + e) * 8 + i / 2] = sign * Factor<Kind>::value(part[e]);
        }
    }
}

// The same of the four registers that each lane of a warp holds of its 16 rows.
template <int Kind> static void unpack_registers(const KcuProduct *const *lanes, float sign, float *out)
{
    typedef typename Factor<Kind>::type T;
    const unsigned E = 4 / sizeof(T), K = 8 * E;
    for (unsigned lane = 0; lane < 32; lane++)
        for (unsigned i = 0; i < 4; i++) {
            T part[E];
            memcpy(part, lanes[lane]->left_registers + i, 4);
            float *column = out + i % 2 * K * 8 + (lane % 4 + i / 2 * 4) * E * 8 + lane / 4;
            for (unsigned e = 0; e < E; e++) column[e * 8] = sign * Factor<Kind>::value(part[e]);
        }
}

// The lanes of a warp have come: read its part of the left tile, the first warp also the right one.
template <int Kind> static void read_left(WarpGroup &group, unsigned warp)
{
    const KcuProduct *const *lanes = group.asked + 32 * warp;
    const unsigned K = 32 / sizeof(typename Factor<Kind>::type);
    const float sign = lanes[0]->flags & KCU_NEGATES_LEFT ? -1.0f : 1.0f;
    if (lanes[0]->left_registers)
        unpack_registers<Kind>(lanes, sign, group.left + 16 * warp * K);
    else
        unpack<Kind>(Tile(lanes[0]->left_tile), 16 * warp, 16 * warp + 16,
                     lanes[0]->flags & KCU_LEFT_ACROSS, sign, group.left);
}
template <int Kind> static void read_right(WarpGroup &group, const KcuProduct &one)
{
    const float sign = one.flags & KCU_NEGATES_RIGHT ? -1.0f : 1.0f;
    unpack<Kind>(Tile(one.right_tile), 0, one.columns, one.flags & KCU_RIGHT_ACROSS, sign, group.right);
}
typedef void (*ReadLeft)(WarpGroup &, unsigned);
typedef void (*ReadRight)(WarpGroup &, const KcuProduct &);
#define KCU_EACH_FACTOR(F)                                                                                   \
    {                                                                                                        \
        F<KCU_F16>, F<KCU_BF16>, F<KCU_TF32>, F<KCU_E4M3>, F<KCU_E5M2>, F<KCU_S8>, F<KCU_U8>                 \
    }
static const ReadLeft READ_LEFT[] = KCU_EACH_FACTOR(read_left);
static const ReadRight READ_RIGHT[] = KCU_EACH_FACTOR(read_right);
static const unsigned DEPTH[] = {16, 16, 8, 32, 32, 32, 32}; // k of one instruction

// sums (8 x 8, by rows) += left (k x 8) transposed, times right (k x 8). Not inline: its sums stay in registers then
// (31 for 63 us for a product of 256 columns of s8; g++ 12.2, 2-core x86-64 machine under other load, 2026-11-25).
__attribute__((noinline)) static void multiply_eight(Eight (&sums)[8], const float *left, const float *right, unsigned K)
{
    Eight s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3];
    Eight s4 = sums[4], s5 = sums[5], s6 = sums[6], s7 = sums[7];
    for (unsigned k = 0; k < K; k++, left += 8, right += 8) {
        Eight b;
        memcpy(&b, right, sizeof b);
        s0 += left[0] * b, s1 += left[1] * b, s2 += left[2] * b, s3 += left[3] * b;
        s4 += left[4] * b, s5 += left[5] * b, s6 += left[6] * b, s7 += left[7] * b;
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
    sums[4] = s4, sums[5] = s5, sums[6] = s6, sums[7] = s7;
}

// The sums of a warp's lanes, 8 x 8 at a time. Lane 4 g + t holds the columns 8 j + 2 t and the next of row g in its
// registers 4 j and 4 j + 1, of row g + 8 in the next two; in halves, each two in one register.
typedef unsigned *const *Registers;

static void take_sums(Eight (&sums)[8], const Registers *lanes, unsigned at, int kind)
{
    for (unsigned i = 0; i < 8 && kind == KCU_SUM_F32; i++) {
        const Registers l[] = {lanes[4 * i] + 2 * at, lanes[4 * i + 1] + 2 * at, lanes[4 * i + 2] + 2 * at,
                               lanes[4 * i + 3] + 2 * at};
        sums[i] = Eight{float_of(*l[0][0]), float_of(*l[0][1]), float_of(*l[1][0]), float_of(*l[1][1]),
                        float_of(*l[2][0]), float_of(*l[2][1]), float_of(*l[3][0]), float_of(*l[3][1])};
    }
    for (unsigned i = 0; i < 64 && kind == KCU_SUM_F16; i++)
        sums[i / 8][i % 8] = decode_half(*lanes[i / 2][at] >> 16 * (i % 2) & 0xFFFF);
}

static void put_floats(const float *sums, const Registers *lanes, unsigned at)
{
    for (unsigned lane = 0; lane < 32; lane++) {
        *lanes[lane][2 * at] = bits_of(sums[2 * lane]);
        *lanes[lane][2 * at + 1] = bits_of(sums[2 * lane + 1]);
    }
}
static void put_halves(const float *sums, const Registers *lanes, unsigned at)
{
    for (unsigned lane = 0; lane < 32; lane++)
        *lanes[lane][at] = encode_half(sums[2 * lane]) | encode_half(sums[2 * lane + 1]) << 16;
}
static void put_integers(const float *sums, const Registers *lanes, unsigned at, unsigned flags)
{
    const unsigned kept = flags & KCU_ADDS ? ~0u : 0;
    int whole[64];
    for (unsigned i = 0; i < 64; i++) whole[i] = int(sums[i]);
    for (unsigned lane = 0; lane < 32; lane++)
        for (unsigned e = 0; e < 2; e++) {
            unsigned &place = *lanes[lane][2 * at + e];
            const int before = int(place & kept), added = whole[2 * lane + e];
            int sum;
            if (__builtin_add_overflow(before, added, &sum) && flags & KCU_SATURATES)
                sum = added < 0 ? -0x7FFFFFFF - 1 : 0x7FFFFFFF;
            place = unsigned(sum);
        }
}

static void multiply_all(WarpGroup &group)
{
    const KcuProduct one = *group.asked[0];
    const unsigned K = DEPTH[one.left_kind];
    Registers registers[128];
    for (unsigned i = 0; i < 128; i++) registers[i] = group.asked[i]->sums;
    for (unsigned rows = 0; rows < 8; rows++)
        for (unsigned columns = 0; columns < one.columns / 8; columns++) {
            const Registers *lanes = registers + rows / 2 * 32;
            const unsigned at = 2 * columns + rows % 2;
            Eight sums[8] = {};
            if (one.flags & KCU_ADDS) take_sums(sums, lanes, at, one.sum_kind);
            multiply_eight(sums, group.left + rows * K * 8, group.right + columns * K * 8, K);
            float found[64];
            memcpy(found, sums, sizeof found);
            if (one.sum_kind == KCU_SUM_F32)
                put_floats(found, lanes, at);
            else if (one.sum_kind == KCU_SUM_F16)
                put_halves(found, lanes, at);
            else
                put_integers(found, lanes, at, one.flags);
        }
}

inline bool alike(const KcuProduct &a, const KcuProduct &b)
{
    return a.columns == b.columns && a.left_kind == b.left_kind && a.right_kind == b.right_kind &&
           a.sum_kind == b.sum_kind && a.flags == b.flags && a.left_tile == b.left_tile &&
           a.right_tile == b.right_tile && !a.left_registers == !b.left_registers;
}

} // namespace kcu

extern "C" {

void kcu_multiply(const KcuProduct *asked)
{
    using namespace kcu;
    Block *block = state->block;
    Fiber *self = state->fiber;
    const unsigned number = self->warp / 4, warp = self->warp % 4, place = 32 * warp + self->lane;
    self->busy = true;
    if (block->count < 128 * (number + 1))
        kcu_fault(KCU_LAUNCH, "a wgmma in a warp group of fewer than 128 threads");
    WarpGroup &group = own_group();
    if (!group.arrived) group.first = asked;
    if (!alike(*group.first, *asked))
        kcu_fault(KCU_LAUNCH,
                  "a wgmma whose shape, descriptors or scales are not those of all threads of its warp group");
    group.asked[place] = asked;
    group.arrived++;
    if (++group.of_warp[warp] == 32) {
        if (!group.right_read) READ_RIGHT[asked->right_kind](group, *asked);
        group.right_read = true;
        READ_LEFT[asked->left_kind](group, warp);
    }
    if (group.arrived < 128) {
        block->at_wgmma++;
        wait_for_turn();
        return;
    }
    multiply_all(group);
    if (state->counting.on)
        state->counting.launch.code_bytes += 64ul * asked->columns * DEPTH[asked->left_kind] * PRODUCT_CODE_BYTES;
    group.arrived = 0;
    group.right_read = false;
    block->at_wgmma -= 127;
    state->releases++;
    for (unsigned i = 0; i < 4; i++) {
        group.of_warp[i] = 0;
        block->warp[4 * number + i].ready |= i == warp ? ~(1u << self->lane) : ~0u;
    }
}

void kcu_fence_products()
{
    kcu::own_group();
    kcu_leave(kcu_meet(~0u, KCU_PRODUCTS_FENCE, 0));
}

void kcu_commit_products()
{
    using namespace kcu;
    WarpGroup &group = own_group();
    KcuMeet *meet = kcu_meet(~0u, KCU_PRODUCTS_COMMIT, 0);
    if (state->fiber->lane == unsigned(__builtin_ctz(meet->arrived))) group.batches[state->fiber->warp % 4]++;
    kcu_leave(meet);
}

void kcu_finish_products(unsigned batches_left)
{
    using namespace kcu;
    WarpGroup &group = own_group();
    kcu_leave(kcu_meet(~0u, KCU_PRODUCTS_WAIT, 0));
    const unsigned batches = group.batches[state->fiber->warp % 4];
    const unsigned upto = batches > batches_left ? batches - batches_left : 0;
    if (upto <= group.done) return;
    for (unsigned part = group.from; part < group.to; part++)
        if (in_use(group, part) && group.reads[part] <= upto && memcmp(group.held[part], place_of(part * 16), 16))
            use_changed();
    group.done = upto;
}

} // extern "C"
