// Matrices of a warp (tensor cores): every lane holds its share of a fragment; products are summed in float.
//
// Which elements a lane holds is not specified by CUDA, but accumulators of one shape share one mapping.
// Source: CUDA C++ Programming Guide, "Warp Matrix Functions".
#pragma once

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "kcurate/warp.h"

namespace nvcuda
{
namespace wmma
{

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

namespace precision
{
struct tf32;
struct u4;
struct s4;
struct b1;
} // namespace precision

template <class T> struct kcu_storage {
    typedef T type;
};
template <> struct kcu_storage<precision::tf32> {
    typedef float type;
};

template <class Use, int M, int N, int K> struct kcu_shape;
template <int M, int N, int K> struct kcu_shape<matrix_a, M, N, K> {
    static const int rows = M, columns = K;
};
template <int M, int N, int K> struct kcu_shape<matrix_b, M, N, K> {
    static const int rows = K, columns = N;
};
template <int M, int N, int K> struct kcu_shape<accumulator, M, N, K> {
    static const int rows = M, columns = N;
};

// A warp holds the factors in half precision twice or more often: 16 elements a lane, whatever the shape.
template <class Use, class T> struct kcu_repeated {
    static const bool value = false;
};
template <> struct kcu_repeated<matrix_a, __half> {
    static const bool value = true;
};
template <> struct kcu_repeated<matrix_b, __half> {
    static const bool value = true;
};
template <class Use, int M, int N, int K, class T, class Layout = void> class alignas(8) fragment
{
  public:
    static const int kcu_rows = kcu_shape<Use, M, N, K>::rows, kcu_columns = kcu_shape<Use, M, N, K>::columns;
    static const int kcu_used = kcu_rows * kcu_columns / 32;
    enum { num_elements = kcu_repeated<Use, T>::value ? 16 : kcu_used };
    enum { num_storage_elements = num_elements };
    typedef T element_type;
    typedef typename kcu_storage<T>::type storage_element_type;
    storage_element_type x[num_storage_elements];
};

// To the 10 fraction bits that tensor cores read of a float; ties away from zero, as cvt.rna does.
KCU_API float __float_to_tf32(float x)
{
    if (x != x || isinf(x)) return x;
    return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xFFFFE000u);
}

template <class F, class T> KCU_API void fill_fragment(F &fragment, T value)
{
    for (int i = 0; i < F::num_elements; i++) fragment.x[i] = typename F::storage_element_type(value);
}

KCU_API void kcu_whole_warp() { kcu_leave(kcu_meet(~0u, KCU_TENSOR, 0)); }

template <class F, class P, class Do>
KCU_API void kcu_visit(F &fragment, P memory, unsigned pitch, bool by_row, Do action)
{
    for (int i = 0; i < F::num_elements; i++) {
        const unsigned at = kcu_lane * F::kcu_used + i % F::kcu_used;
        const unsigned row = at / F::kcu_columns, column = at % F::kcu_columns;
        action(fragment.x[i], memory[by_row ? row * pitch + column : column * pitch + row]);
    }
}
template <class L> struct kcu_by_row;
template <> struct kcu_by_row<row_major> {
    static const bool value = true;
};
template <> struct kcu_by_row<col_major> {
    static const bool value = false;
};

template <class Use, int M, int N, int K, class T, class L, class E>
KCU_API void load_matrix_sync(fragment<Use, M, N, K, T, L> &to, const E *memory, unsigned pitch)
{
    kcu_whole_warp();
    kcu_visit(to, memory, pitch, kcu_by_row<L>::value, [](auto &element, auto value) { element = value; });
}
template <int M, int N, int K, class T, class E> KCU_API void
load_matrix_sync(fragment<accumulator, M, N, K, T> &to, const E *memory, unsigned pitch, layout_t layout)
{
    kcu_whole_warp();
    kcu_visit(to, memory, pitch, layout == mem_row_major, [](auto &element, auto value) { element = value; });
}
template <int M, int N, int K, class T, class E> KCU_API void
store_matrix_sync(E *memory, const fragment<accumulator, M, N, K, T> &from, unsigned pitch, layout_t layout)
{
    kcu_whole_warp();
    kcu_visit(from, memory, pitch, layout == mem_row_major,
              [](const auto &element, auto &value) { value = element; });
    kcu_whole_warp();
}

// What a product of two elements is summed in: float, or int for integers.
template <class T> KCU_API float kcu_factor(const T &x) { return float(x); }
KCU_API int kcu_factor(const signed char &x) { return x; }
KCU_API int kcu_factor(const unsigned char &x) { return x; }
KCU_API double kcu_factor(const double &x) { return x; }

// The element of a matrix that some lane of the warp holds; `lanes` are the lanes' fragments.
template <class F> KCU_API typename F::storage_element_type kcu_element(const KcuMeet *lanes, int row, int column)
{
    const int at = row * F::kcu_columns + column;
    return ((const F *)lanes->value[at / F::kcu_used])->x[at % F::kcu_used];
}

template <int M, int N, int K, class TA, class LA, class TB, class LB, class TC, class TD>
KCU_API void mma_sync(fragment<accumulator, M, N, K, TD> &d, const fragment<matrix_a, M, N, K, TA, LA> &a,
                      const fragment<matrix_b, M, N, K, TB, LB> &b,
                      const fragment<accumulator, M, N, K, TC> &c, bool saturate = false)
{
    typedef fragment<matrix_a, M, N, K, TA, LA> A;
    typedef fragment<matrix_b, M, N, K, TB, LB> B;
    typedef fragment<accumulator, M, N, K, TD> D;
    const KcuMeet *lanes_a = kcu_meet(~0u, KCU_TENSOR, (unsigned long long)&a);
    KcuMeet *lanes_b = kcu_meet(~0u, KCU_TENSOR, (unsigned long long)&b);
    for (int i = 0; i < D::num_elements; i++) {
        const int at = int(kcu_lane) * D::num_elements + i, row = at / N, column = at % N;
        auto sum = kcu_factor(c.x[i]);
        for (int k = 0; k < K; k++)
            sum +=
                kcu_factor(kcu_element<A>(lanes_a, row, k)) * kcu_factor(kcu_element<B>(lanes_b, k, column));
        d.x[i] = typename D::storage_element_type(sum);
    }
    kcu_whole_warp(); // until every lane has read, no lane may change its share
    kcu_leave(const_cast<KcuMeet *>(lanes_a));
    kcu_leave(lanes_b);
}

} // namespace wmma
} // namespace nvcuda
