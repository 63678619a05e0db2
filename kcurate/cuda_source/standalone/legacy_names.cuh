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
#undef UINT_MAX
#define UINT_MAX 4294967295U
#undef LONG_MAX
#define LONG_MAX 9223372036854775807L
#undef CHAR_BIT
#define CHAR_BIT 8
#undef FLT_MAX
#define FLT_MAX 3.402823466e+38F
#undef FLT_MIN
#define FLT_MIN 1.175494351e-38F
#undef FLT_EPSILON
#define FLT_EPSILON 1.192092896e-07F
#undef DBL_MAX
#define DBL_MAX 1.7976931348623157e+308
#undef DBL_MIN
#define DBL_MIN 2.2250738585072014e-308
#undef DBL_EPSILON
#define DBL_EPSILON 2.2204460492503131e-16
#undef M_PI
#define M_PI 3.14159265358979323846
#undef M_PI_2
#define M_PI_2 1.57079632679489661923
#undef M_PI_4
#define M_PI_4 0.78539816339744830962
#undef M_E
#define M_E 2.7182818284590452354
#undef M_SQRT2
#define M_SQRT2 1.41421356237309504880
#undef M_SQRT1_2
#define M_SQRT1_2 0.70710678118654752440
#undef M_1_PI
#define M_1_PI 0.31830988618379067154
#undef M_2_PI
#define M_2_PI 0.63661977236758134308
#undef M_2_SQRTPI
#define M_2_SQRTPI 1.12837916709551257390
#undef M_LN2
#define M_LN2 0.69314718055994530942
#undef M_LN10
#define M_LN10 2.30258509299404568402
#undef M_LOG2E
#define M_LOG2E 1.4426950408889634074
#undef M_LOG10E
#define M_LOG10E 0.43429448190325182765
#undef INFINITY
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
#define cudaTriggerProgrammaticLaunchCompletion() \
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
