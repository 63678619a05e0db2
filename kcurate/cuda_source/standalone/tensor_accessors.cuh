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
