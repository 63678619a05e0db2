"""Classes whose methods are partly for the host: a kernel's file has what device code may call."""

from __future__ import annotations

import pytest

from kcurate.backends.cuda import cubin, nvrtc
from kcurate.cuda_source import KernelSource, whole_file

USE = "__global__ void k(S s, float* out) { out[threadIdx.x] = s.a; }\n"


def kernel_of(source: str) -> KernelSource:
    """The one kernel of a file, which compiles by itself."""
    (kernel,) = whole_file(source.encode()).kernels
    result = nvrtc.compile_cubin(kernel.code)
    assert result.cubin is not None, result.log + kernel.code.decode()
    assert any(kernel.name in found.kernel for found in cubin.read_kernels(result.cubin))
    return kernel


@pytest.mark.parametrize(
    "member",
    [
        "S() { a = 1; }",
        "S(float x) : a(x) {}",
        "S(float x);",
        "~S() { release(a); }",
        "std::string text() const { return std::to_string(a); }",
        "__host__ void show(std::ostream& out) const;",
        "friend std::ostream& operator<<(std::ostream& out, const S& s) { return out << s.a; }",
        "template <class T> T as() const { std::vector<T> v; return v[0]; }",
        "operator float() const { return host_only(a); }",
        "bool operator<(const S& other) const { return a < other.a; }",
        "#define HOST __host__\n  HOST int both() { return 1; }",
    ],
)
def test_what_only_the_host_may_call_is_left_out(member: str) -> None:
    kernel = kernel_of(
        f"#include <string>\nstruct S {{\n  float a;\n  {member}\n"
        f"  __device__ float get() const {{ return a; }}\n}};\n{USE}"
    )
    assert "host-method" in kernel.shims
    assert b"get()" in kernel.code
    assert b"std::" not in kernel.code


def test_types_that_only_host_methods_use_stay_behind() -> None:
    kernel = kernel_of("struct Log { int lines; };\nstruct S { float a; void log(Log& to); };\n" + USE)
    assert b"Log" not in kernel.code


def test_virtual_methods_stay_declared_since_they_make_the_object_larger() -> None:
    kernel = kernel_of(
        "struct S { float a; virtual int kind() const { return host(); } };\n"
        "__global__ void k(S* s, int* out) { out[0] = sizeof(S); out[1] = (int)s->a; }\n"
    )
    assert b"virtual int kind() const;" in kernel.code


def test_a_method_that_device_code_names_stays() -> None:
    kernel = kernel_of(
        "struct S { float a; float twice() const { return 2 * a; } };\n"
        "__global__ void k(S s, float* out) { out[threadIdx.x] = s.twice(); }\n"
    )
    assert b"__host__ __device__ float twice() const { return 2 * a; }" in kernel.code


def test_classes_without_host_methods_are_taken_as_they_are() -> None:
    text = (
        "struct S {\n  float a;\n  S() = default;\n  __device__ S(float x) : a(x) {}\n  void (*f)(int);\n"
        "  HD friend float operator*(float x, const S& s) { return x * s.a; }\n};\n"
    )
    kernel = kernel_of("#define HD __host__ __device__\n" + text + USE)
    assert text.encode() in kernel.code
    assert kernel.shims == ()


def test_methods_of_nested_and_templated_classes() -> None:
    kernel = kernel_of(
        "template <class T> struct Outer { struct Inner { T b; Inner(T x) { b = x; } }; T a; Outer(T x); };\n"
        "typedef struct Plain { float a; float get() { return a; } } S;\n"
        "template <class T> __device__ T of(const typename Outer<T>::Inner* i) { return i->b; }\n"
        "__global__ void k(S s, const Outer<float>::Inner* i, float* out) { out[0] = s.a + of<float>(i); }\n"
    )
    assert b"get" not in kernel.code


OWNERS = {
    "of data": "#include <vector>\nclass Owner {{\n public:\n{inside}  explicit Owner(std::string name);\n"
    "  void step(const std::vector<float> &x) {{ rows_ = x; }}\n private:\n  std::vector<float> rows_;\n"
    "  std::unique_ptr<Engine> engine_;\n}};\n",
    "with a base": 'class Owner : public AbsentBase, private Other<int> {{\n public:\n{inside}'
    "  ~Owner() override;\n  AbsentHandle handle() const {{ return AbsentBase::handle(); }}\n}};\n",
    "in a namespace": "namespace lib {{\nstruct Owner {{\n{inside}  thrust::device_vector<int> kept;\n"
    "  Owner(const Owner &) = delete;\n  friend void swap(Owner &, Owner &) {{ std::swap(1, 2); }}\n}};\n}}\n"
    "using lib::Owner;\n",
}  # fmt: skip
INSIDE = (
    "  struct Options {\n    float by;\n"
    "    __host__ __device__ float grown(float x) const { return by * x; }\n  };\n"
    "  enum Mode { Plain, Twice };\n  static constexpr int kMost = 64;\n"
)


@pytest.mark.parametrize("owner", OWNERS)
def test_of_a_host_class_around_a_parameter_only_what_it_declares_is_taken(owner: str) -> None:
    text = OWNERS[owner].format(inside=INSIDE)
    text += (
        "__global__ void k(float *v, Owner::Options options, int mode) {\n"
        "  if (threadIdx.x < Owner::kMost) v[0] = options.grown(v[1]) * (mode == Owner::Twice);\n}\n"
    )
    kernel = kernel_of(text)
    assert not any(word in kernel.code for word in (b"vector", b"Absent", b"unique_ptr", b"swap"))


def test_a_class_that_device_code_has_objects_of_stays_whole() -> None:
    text = (
        "class Box {\n public:\n  struct Edge { int n; };\n  Edge edge;\n"
        "  __device__ int get() const { return edge.n; }\n};\n"
        "__global__ void k(int *v, Box box, Box::Edge edge) { v[0] = box.get() + edge.n; }\n"
    )
    assert b"Edge edge;" in kernel_of(text).code
