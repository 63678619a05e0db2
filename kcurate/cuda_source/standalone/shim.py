"""Shims that let legacy CUDA compile under CUDA 13, with NVRTC and nvcc alike.

`SHIM` is ordinary device code, put before a unit that uses one of its names without declaring it. Like any
declaration, each of its parts enters a kernel's file only if it is used. A texture reference becomes a
`__device__` variable of the class template `texture` below: three members, `data` (an address in global
memory), `width` and `height` in texels (height 0: one-dimensional), 8 + 4 + 4 bytes. Whatever
launches the kernel sets them (the plan step `bind_texture`). Addressing is clamped and filtering is point
sampling, the defaults of texture references.
"""

from __future__ import annotations

import re
from functools import cache

# PyTorch's views of tensors: a pointer, then as many sizes and strides (in elements) as dimensions.
_ACCESSORS = b"""\
namespace at {
template <typename T>
struct DefaultPtrTraits {
  typedef T* PtrType;
};
template <typename T>
struct RestrictPtrTraits {
  typedef T* __restrict__ PtrType;
};
template <typename T, int N, template <typename> class Traits = DefaultPtrTraits, typename I = long long>
struct TensorAccessor {
  typename Traits<T>::PtrType data_;
  const I *sizes_, *strides_;
  __host__ __device__ TensorAccessor(typename Traits<T>::PtrType data, const I* sizes, const I* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  __host__ __device__ I size(I i) const { return sizes_[i]; }
  __host__ __device__ I stride(I i) const { return strides_[i]; }
  __host__ __device__ typename Traits<T>::PtrType data() const { return data_; }
  __host__ __device__ TensorAccessor<T, N - 1, Traits, I> operator[](I i) const {
    return TensorAccessor<T, N - 1, Traits, I>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }
};
template <typename T, template <typename> class Traits, typename I>
struct TensorAccessor<T, 1, Traits, I> {
  typename Traits<T>::PtrType data_;
  const I *sizes_, *strides_;
  __host__ __device__ TensorAccessor(typename Traits<T>::PtrType data, const I* sizes, const I* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  __host__ __device__ I size(I i) const { return sizes_[i]; }
  __host__ __device__ I stride(I i) const { return strides_[i]; }
  __host__ __device__ typename Traits<T>::PtrType data() const { return data_; }
  __host__ __device__ T& operator[](I i) const { return data_[strides_[0] * i]; }
};
template <typename T, int N, template <typename> class Traits = DefaultPtrTraits, typename I = long long>
struct GenericPackedTensorAccessor {
  typename Traits<T>::PtrType data_;
  I sizes_[N];
  I strides_[N];
  __host__ __device__ I size(I i) const { return sizes_[i]; }
  __host__ __device__ I stride(I i) const { return strides_[i]; }
  __host__ __device__ typename Traits<T>::PtrType data() const { return data_; }
  __host__ __device__ decltype(auto) operator[](I i) const {
    return TensorAccessor<T, N, Traits, I>(data_, sizes_, strides_)[i];
  }
};
template <typename T, int N, template <typename> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int>;
template <typename T, int N, template <typename> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, long long>;
template <typename T, int N, template <typename> class Traits = DefaultPtrTraits, typename I = long long>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, I>;
}  // namespace at
namespace torch {
using at::DefaultPtrTraits;
using at::RestrictPtrTraits;
using at::TensorAccessor;
using at::GenericPackedTensorAccessor;
using at::PackedTensorAccessor32;
using at::PackedTensorAccessor64;
using at::PackedTensorAccessor;
}
"""
# Complex numbers of thrust and CuPy, which NVRTC has no header of.
_COMPLEX = b"""\
namespace thrust {
template <class T>
struct alignas(2 * sizeof(T)) complex {
  typedef T value_type;
  T re_, im_;
  complex() = default;
  __host__ __device__ constexpr complex(const T& re, const T& im = T()) : re_(re), im_(im) {}
  template <class U>
  __host__ __device__ constexpr complex(const complex<U>& z) : re_(z.real()), im_(z.imag()) {}
  __host__ __device__ constexpr T real() const { return re_; }
  __host__ __device__ constexpr T imag() const { return im_; }
  __host__ __device__ void real(T re) { re_ = re; }
  __host__ __device__ void imag(T im) { im_ = im; }
  template <class U>
  __host__ __device__ complex& operator+=(const U& z) { return *this = *this + z; }
  template <class U>
  __host__ __device__ complex& operator-=(const U& z) { return *this = *this - z; }
  template <class U>
  __host__ __device__ complex& operator*=(const U& z) { return *this = *this * z; }
  template <class U>
  __host__ __device__ complex& operator/=(const U& z) { return *this = *this / z; }
};
template <class T>
__host__ __device__ complex<T> operator+(const complex<T>& a) { return a; }
template <class T>
__host__ __device__ complex<T> operator-(const complex<T>& a) { return complex<T>(-a.re_, -a.im_); }
template <class A, class B>
__host__ __device__ complex<decltype(A() + B())> operator+(const complex<A>& a, const complex<B>& b) {
  return complex<decltype(A() + B())>(a.re_ + b.re_, a.im_ + b.im_);
}
template <class A, class B>
__host__ __device__ complex<decltype(A() + B())> operator+(const complex<A>& a, const B& b) {
  return complex<decltype(A() + B())>(a.re_ + b, a.im_);
}
template <class A, class B>
__host__ __device__ complex<decltype(A() + B())> operator+(const A& a, const complex<B>& b) {
  return complex<decltype(A() + B())>(a + b.re_, b.im_);
}
template <class A, class B>
__host__ __device__ complex<decltype(A() + B())> operator-(const complex<A>& a, const complex<B>& b) {
  return complex<decltype(A() + B())>(a.re_ - b.re_, a.im_ - b.im_);
}
template <class A, class B>
__host__ __device__ complex<decltype(A() + B())> operator-(const complex<A>& a, const B& b) {
  return complex<decltype(A() + B())>(a.re_ - b, a.im_);
}
template <class A, class B>
__host__ __device__ complex<decltype(A() + B())> operator-(const A& a, const complex<B>& b) {
  return complex<decltype(A() + B())>(a - b.re_, -b.im_);
}
template <class A, class B>
__host__ __device__ complex<decltype(A() + B())> operator*(const complex<A>& a, const complex<B>& b) {
  return complex<decltype(A() + B())>(a.re_ * b.re_ - a.im_ * b.im_, a.re_ * b.im_ + a.im_ * b.re_);
}
template <class A, class B>
__host__ __device__ complex<decltype(A() + B())> operator*(const complex<A>& a, const B& b) {
  return complex<decltype(A() + B())>(a.re_ * b, a.im_ * b);
}
template <class A, class B>
__host__ __device__ complex<decltype(A() + B())> operator*(const A& a, const complex<B>& b) {
  return complex<decltype(A() + B())>(a * b.re_, a * b.im_);
}
template <class A, class B>
__host__ __device__ complex<decltype(A() + B())> operator/(const complex<A>& a, const complex<B>& b) {
  auto scale = fabs(b.re_) + fabs(b.im_);
  auto ar = a.re_ / scale, ai = a.im_ / scale, br = b.re_ / scale, bi = b.im_ / scale;
  auto length = br * br + bi * bi;
  return complex<decltype(A() + B())>((ar * br + ai * bi) / length, (ai * br - ar * bi) / length);
}
template <class A, class B>
__host__ __device__ complex<decltype(A() + B())> operator/(const complex<A>& a, const B& b) {
  return complex<decltype(A() + B())>(a.re_ / b, a.im_ / b);
}
template <class A, class B>
__host__ __device__ complex<decltype(A() + B())> operator/(const A& a, const complex<B>& b) {
  return complex<A>(a) / b;
}
template <class A, class B>
__host__ __device__ bool operator==(const complex<A>& a, const complex<B>& b) {
  return a.re_ == b.re_ && a.im_ == b.im_;
}
template <class A, class B>
__host__ __device__ bool operator!=(const complex<A>& a, const complex<B>& b) { return !(a == b); }
template <class T>
__host__ __device__ T abs(const complex<T>& z) { return hypot(z.re_, z.im_); }
template <class T>
__host__ __device__ T arg(const complex<T>& z) { return atan2(z.im_, z.re_); }
template <class T>
__host__ __device__ T norm(const complex<T>& z) { return z.re_ * z.re_ + z.im_ * z.im_; }
template <class T>
__host__ __device__ complex<T> conj(const complex<T>& z) { return complex<T>(z.re_, -z.im_); }
template <class T>
__host__ __device__ complex<T> polar(const T& length, const T& angle = T()) {
  return complex<T>(length * cos(angle), length * sin(angle));
}
template <class T>
__host__ __device__ complex<T> exp(const complex<T>& z) { return polar(T(::exp(z.re_)), z.im_); }
template <class T>
__host__ __device__ complex<T> log(const complex<T>& z) { return complex<T>(::log(abs(z)), arg(z)); }
template <class T>
__host__ __device__ complex<T> sqrt(const complex<T>& z) { return polar(T(::sqrt(abs(z))), arg(z) / 2); }
template <class T>
__host__ __device__ complex<T> pow(const complex<T>& z, const complex<T>& w) { return exp(w * log(z)); }
template <class T>
__host__ __device__ complex<T> pow(const complex<T>& z, const T& w) { return exp(w * log(z)); }
}  // namespace thrust
"""
_USES_COMPLEX = re.compile(rb"\bthrust\s*::\s*complex\b|\bcupy/complex\.cuh")
# Constants of C headers.
_CONSTANTS = re.sub(
    rb"(\w+) (\S+)\s", rb"#undef \1\n#define \1 \2\n",
    b"""\
UINT_MAX 4294967295U LONG_MAX 9223372036854775807L CHAR_BIT 8
FLT_MAX 3.402823466e+38F FLT_MIN 1.175494351e-38F FLT_EPSILON 1.192092896e-07F
DBL_MAX 1.7976931348623157e+308 DBL_MIN 2.2250738585072014e-308 DBL_EPSILON 2.2204460492503131e-16
M_PI 3.14159265358979323846 M_PI_2 1.57079632679489661923 M_PI_4 0.78539816339744830962
M_E 2.7182818284590452354 M_SQRT2 1.41421356237309504880 M_SQRT1_2 0.70710678118654752440
M_1_PI 0.31830988618379067154 M_2_PI 0.63661977236758134308 M_2_SQRTPI 1.12837916709551257390
M_LN2 0.69314718055994530942 M_LN10 2.30258509299404568402
M_LOG2E 1.4426950408889634074 M_LOG10E 0.43429448190325182765
""",
)  # fmt: skip
SHIM = (
    b"""\
#undef cudaReadModeElementType
#define cudaReadModeElementType 0
#undef cudaReadModeNormalizedFloat
#define cudaReadModeNormalizedFloat 1
#undef cudaTextureType1D
#define cudaTextureType1D 1
#undef cudaTextureType2D
#define cudaTextureType2D 2
template <class T, int Dimensions = 1, int Mode = 0>
struct texture {
  const T* data;
  int width, height;
};
template <class T, int D, int M>
__device__ inline T tex1Dfetch(const texture<T, D, M>& t, int i) {
  return t.data[i < 0 ? 0 : i >= t.width ? t.width - 1 : i];
}
template <class T, int D, int M>
__device__ inline T tex1D(const texture<T, D, M>& t, float x) {
  return tex1Dfetch(t, (int)floorf(x));
}
template <class T, int D, int M>
__device__ inline T tex2D(const texture<T, D, M>& t, float x, float y) {
  int i = (int)floorf(x), j = (int)floorf(y);
  i = i < 0 ? 0 : i >= t.width ? t.width - 1 : i;
  j = j < 0 ? 0 : j >= t.height ? t.height - 1 : j;
  return t.data[j * t.width + i];
}
#undef INT_MAX
#define INT_MAX 2147483647
#undef INT_MIN
#define INT_MIN (-2147483647 - 1)
%b#undef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#undef NAN
#define NAN __int_as_float(0x7fffffff)
#undef RAND_MAX
#define RAND_MAX 2147483647
#undef __extension__
#define __extension__
#undef cudaGridDependencySynchronize
#define cudaGridDependencySynchronize() asm volatile("griddepcontrol.wait;" ::: "memory")
#undef cudaTriggerProgrammaticLaunchCompletion
#define cudaTriggerProgrammaticLaunchCompletion() \\
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory")
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef float cufftReal;
typedef double cufftDoubleReal;
typedef float2 cufftComplex;
typedef double2 cufftDoubleComplex;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;
template <class T>
__host__ __device__ constexpr const T& std_min(const T& a, const T& b) {
  return b < a ? b : a;
}
template <class T>
__host__ __device__ constexpr const T& std_max(const T& a, const T& b) {
  return a < b ? b : a;
}
template <class T>
__host__ __device__ constexpr const T& std_clamp(const T& a, const T& low, const T& high) {
  return a < low ? low : high < a ? high : a;
}
"""
    % _CONSTANTS
    + _ACCESSORS
)
# The repair that each part of the shim belongs to, as named in the record.
TEXTURE_NAMES = frozenset((b"texture", b"tex1Dfetch", b"tex1D", b"tex2D"))
ACCESSOR_NAMES = frozenset(re.findall(rb"(?:struct|using) (\w+)(?: =| \{)", _ACCESSORS))
COMPLEX_NAMES = frozenset((b"complex", *re.findall(rb" (\w+|operator[^\w\s]+)\((?=const)", _COMPLEX)))
STD_NAMES = frozenset((b"std_min", b"std_max", b"std_clamp"))
_STD_CALL = re.compile(rb"std(?<!\wstd)\s*::\s*(?:min|max|clamp)\b")

# Types of C headers.
_INTEGERS = frozenset(re.findall(rb"typedef unsigned \w+ (\w+);", SHIM))

_NAMES = (
    {*re.findall(rb"#define (\w+)", SHIM), *re.findall(rb"typedef [\w ]+ (\w+);", SHIM)}
    | TEXTURE_NAMES
    | ACCESSOR_NAMES
)


def shim_for(text: bytes) -> bytes:
    """The parts of the shim that a unit uses names of without declaring them; empty: none.

    A type may be declared behind the header that uses it: which declaration is meant, the closure tells.
    """
    used = {name for name in _NAMES if name in text and _word(name).search(text)}
    declared = {name for name in used - _INTEGERS if _declares(name, text)}
    if b"texture" in declared:
        declared |= TEXTURE_NAMES
    if any(
        re.search(rb"\b(?:struct|class|using)\s+%b\b(?!::)" % name, text) for name in used & ACCESSOR_NAMES
    ):
        declared |= ACCESSOR_NAMES  # PyTorch's own header is in the tree
    shim = SHIM if used - declared or (b"std" in text and _STD_CALL.search(text)) else b""
    if b"complex" not in text:
        return shim
    if _USES_COMPLEX.search(text) and not re.search(rb"\bnamespace\s+thrust\b", text):
        shim += _COMPLEX
        if b"cupy/complex" in text and not re.search(rb"\busing\s+thrust\s*::\s*complex\b", text):
            shim += b"using thrust::complex;\n"
    return shim


@cache
def _word(name: bytes) -> re.Pattern[bytes]:
    return re.compile(rb"%b(?<!\w%b)(?!\w)" % (name, name))


def _declares(name: bytes, text: bytes) -> bool:
    pattern = (
        rb"#[ \t]*define[ \t]+%b\b|\b%b[ \t]*;" if name != b"texture" else rb"#[ \t]*define[ \t]+%b\b|%b\s*\{"
    )
    return any(
        match[0][:1] in b"#t" or b"typedef" in text[text.rfind(b";", 0, match.start()) + 1 : match.start()]
        for match in re.finditer(pattern % (name, name), text)
    )


def repairs(shim_names: frozenset[bytes], others: frozenset[str]) -> tuple[str, ...]:
    """The names of the repairs made to a kernel's file; `others` are those that the shim has no part in."""
    plain = (
        {name for name in shim_names if not name.startswith((b"cuda", b"__"))}
        - TEXTURE_NAMES
        - STD_NAMES
        - ACCESSOR_NAMES
        - COMPLEX_NAMES
    )
    names = others | {
        *(["texture-reference"] if shim_names & TEXTURE_NAMES else []),
        *(["tensor-accessor"] if shim_names & ACCESSOR_NAMES else []),
        *(["complex"] if shim_names & COMPLEX_NAMES else []),
        *(["constant"] if any(name.isupper() for name in plain) else []),
        *(["integer-type"] if any(name.islower() for name in plain) else []),
        *(["library-type"] if any(not name.islower() and not name.isupper() for name in plain) else []),
        *(["std-name"] if shim_names & STD_NAMES else []),
    }
    return tuple(sorted(names))
