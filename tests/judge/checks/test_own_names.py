"""A name of a host function is the side's own where the side declares it, and nowhere else."""

from __future__ import annotations

import pytest

from kcurate.judge.checks.lexer import Source
from kcurate.judge.checks.source import calls

K = 'extern "C" __global__ void k(float* x, int n) {\n%s\n}\n'
OWN = {
    "var": K % "float open = x[0], puts = 1.0f; x[1] = open * puts;",
    "arr": K % "__shared__ float puts[32]; puts[threadIdx.x] = x[0]; x[1] = puts[0];",
    "fn": "__device__ float puts(float a) { return a; }\n" + K % "x[0] = puts(x[1]);",
    "fnT": "template <class T> __device__ __forceinline__ T fread(const T* p, int i) { return p[i]; }\n"
    + K % "x[0] = fread(x, 1);",
    "param": "__device__ float f(const float* __restrict__ fread, int fwrite) { return fread[fwrite]; }\n"
    + K % "x[0]=f(x,n);",
    "member": "struct S { float open; int socket; __device__ float fread(int i) const { return open + socket * i; } };\n"  # noqa: E501
    + K % "S s; s.open = 1; x[0] = s.fread(2);",
    "outofline": "struct S { float puts; __device__ float get(); };\n__device__ float S::get() { return puts; }\n"  # noqa: E501
    + K % "S s; x[0]=s.get();",
    "derived": "struct A { float puts; }; struct B : A { __device__ float g() { return puts; } };\n"
    + K % "B b; x[0]=b.g();",
    "tparam": "template <int creat, typename T> __device__ T f(T v) { return v * creat; }\n"
    + K % "x[0]=f<3>(x[1]);",
    "macroparam": "#define LOAD(fread, i) fread[i]\n" + K % "x[0]=LOAD(x,1);",
    "macro": "#define fread(i) x[i]\n" + K % "x[0]=fread(1);",
    "macrobody": "#define STEP sum += puts[1]\n" + K % "float puts[4] = {0}; float sum = 0; STEP; x[0]=sum;",
    "lambda": K % "auto open = [&](int i) { return x[i]; }; x[0] = open(3);",
    "lambdaparam": K % "auto f = [&](int socket) { return x[socket]; }; x[0] = f(3);",
    "for": K % "for (int kill = 0, puts = 1; kill < n; ++kill) x[kill] = puts;",
    "enum": "enum { socket, creat };\n" + K % "x[socket] = creat;",
    "enumclass": "enum class Op { fread, fwrite };\n" + K % "if (Op(n) == Op::fread) x[0] = 1;",
    "ns": "namespace io { __device__ float fread(const float* p) { return *p; } }\n"
    + K % "x[0] = io::fread(x);",
    "usingns": "namespace io { __device__ float fread(const float* p) { return *p; } }\nusing namespace io;\n"
    + K % "x[0] = fread(x);",
    "usingdecl": "namespace io { __device__ float fread(const float* p) { return *p; } }\nusing io::fread;\n"
    + K % "x[0] = fread(x);",
    "alias": "using fread = float;\n" + K % "fread v = 3; x[0]=v;",
    "typedef": "typedef float socket;\n" + K % "socket v = 3; x[0]=v;",
    "const": "static __constant__ float puts[4] = {1,2,3,4};\n" + K % "x[0]=puts[1];",
    "struct": "struct socket { int a; };\n" + K % "socket s{1}; x[0] = s.a;",
    "bind": "struct P{int a,b;};\n" + K % "P p{1,2}; auto [fread, fwrite] = p; x[0] = fread + fwrite;",
    "label": K % "if (n) goto exit; x[0] = 1; exit: return;",
    "proto": "__device__ float fread(const float* p, int i);\n"
    + K % "x[0] = fread(x, 1);"
    + "__device__ float fread(const float* p, int i) { return p[i]; }",
    "init": K % "float puts(x[0]); x[1] = puts;",
    "ptr": K % "float *fread = x + 1, *fwrite = x; fwrite[0] = fread[0];",
    "extfn": 'extern "C" { __device__ float helper(float puts) { return puts; } __global__ void k(float* fread, float* fwrite, int n) { if (n) fwrite[0] = fread[1]; } }',  # noqa: E501
    "lb": 'extern "C" __launch_bounds__(256) __global__ void k(const float* fread, float* fwrite) { fwrite[0]=fread[0]; }',  # noqa: E501
    "if": K % "if (float puts = x[0]; puts > 0) { x[1] = puts; }",
    "shared ext": K % "extern __shared__ float fread[]; fread[0] = x[0]; x[1] = fread[0];",
    "functor": "struct fread { __device__ float operator()(float v) const { return v; } };\n"
    + K % "x[0] = fread()(x[1]); x[2] = fread{}(x[3]);",
    "method": "struct T { const float* p; __device__ float open(int i) const { return p[i]; } __device__ float two() const { return open(2); } };\n"  # noqa: E501
    + K % "T t{x}; x[0] = t.two();",
    "rec": "__device__ int kill(int a) { return a ? kill(a - 1) : 0; }\n" + K % "x[0]=kill(n);",
    "nested call": "__device__ float open(float v) { return v; }\n"
    + K % "for (int i = 0; i < n; ++i) { if (open(x[i]) > 0) { x[i] = open(open(x[i])); } }",
    "tmembr": "template <int N> struct V { float puts[N]; __device__ float& operator[](int i) { return puts[i]; } };\n"  # noqa: E501
    + K % "V<3> v; v[0]=1; x[0]=v[0];",
    "macrotype": "#define REAL float\n" + K % "REAL puts = x[0]; x[1] = puts;",
    "unsigned": K
    % "unsigned long long int puts = 1; const volatile float* const __restrict__ fread = x; x[puts] = fread[0];",  # noqa: E501
    "range": K % "float v[3] = {1,2,3}; for (float puts : v) x[0] += puts;",
}
OF_THE_HOST = {
    "undeclared": K % 'puts("a");',
    "ptr": K % 'auto f = &open; f("a",0);',
    "otherscope": "__device__ float f(float puts) { return puts; }\n" + K % 'puts("a");',
    "otherblock": K % "{ int fread = 1; x[0] = fread; } fread(x, 1, 1, 0);",
    "externC": 'extern "C" __device__ int open(const char*, int) { return 0; }\n'
    + K % 'x[0] = open("a", 0);',
    "externCb": 'extern "C" { __device__ int open(const char*, int) { return 0; } }\n'
    + K % 'x[0] = open("a", 0);',
    "proto only": "__device__ int puts(const char*);\n" + K % 'x[0] = puts("a");',
    "global": "namespace io { __device__ float fread(const float* p) { return *p; } }\n"
    + K % "x[0] = ::fread(x);",
    "ns elsewhere": "namespace io { __device__ float fread(const float* p) { return *p; } }\n"
    + K % "x[0] = fread(x);",
    "std": K % 'std::puts("a"); std::abort();',
    "member elsewhere": "struct S { int puts; };\n" + K % 'puts("a");',
    "using": "using ::puts;\n" + K % 'puts("a");',
    "usingin": K % 'using ::open; open("a",0);',
    "macro rename": "#define GO open\n" + K % 'GO("a", 0);',
    "macro rename2": "#define GO(a) open a\nstruct S { int open; };\n" + K % 'GO(("a", 0));',
    "cond": "#if 0\n#define puts(x) 0\n#endif\n" + K % 'puts("a");',
    "cond2": K % '#if 0\nint puts;\n#endif\nputs("a");',
    "undef": "#define puts(x) 0\n#undef puts\n" + K % 'puts("a");',
    "brace macro": "#define CLOSE }\n" + K % '{ int puts; CLOSE puts("a");',
    "after use": K % 'puts("a"); int puts; x[0] = puts;',
    "call arg": K % 'if (n) f(n * open); open("a",0);',
    "mul": K % 'x[0] = n * puts("a");',
    "ret": '__device__ int f() { return puts("a"); }',
    "clock64 own": "__device__ long clock64() { return 0; }\n" + K % "x[0] = clock64();",
    "printf own": "__device__ int printf(const char*, int) { return 0; }\n" + K % 'x[0] = printf("a", 1);',
    "macro clock64": "#define clock64() 0\n" + K % "x[0]=clock64();",
    "tmacro": "#define T struct Z; using ::\nT puts;\n" + K % 'puts("a");',
    "case": K % "switch (n) { case puts: ; } ",
    "friend": "struct S { friend int puts(const char*); };\n" + K % 'puts("a");',
    "adl": "namespace A { struct S {}; }\n" + K % "A::S s; puts(s);",
    "stmt": K % 'n; puts("x");',
    "cast": K % 'x[0] = (int) puts("x");',
    "neg": K % "x[0] = -abort();",
    "cond3": K % "n ? abort() : exit(1);",
    "deflocal": K % 'int puts(const char*); puts("x");',
    "sizeof": K % 'sizeof puts("x");',
    "enum class": "enum class E { puts };\n" + K % 'puts("a");',
}


@pytest.mark.parametrize("name", OWN)
def test_a_name_that_the_side_declares_is_its_own(name: str) -> None:
    assert list(calls(Source(OWN[name]))) == []


@pytest.mark.parametrize("name", OF_THE_HOST)
def test_a_declaration_elsewhere_excuses_nothing(name: str) -> None:
    assert list(calls(Source(OF_THE_HOST[name])))
