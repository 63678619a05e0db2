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
