"""The word lists behind the static checks: what a side must not name, and what it may.

Sources: CUDA C++ Programming Guide (language extensions, device-side functions), NVRTC user guide (predefined
headers). Not covered: searching code for them (`kcurate.judge.checks.source`), what may be included
(`kcurate.core.headers`), PTX (`kcurate.ptx.rows`).
"""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# --- Deny-lists: words that a side must not use or redefine ---

# Device functions that need no header: clocks, printf, the device heap. A side may not declare them either.
BUILT_IN_CALLS = word_set(
    """
    printf vprintf malloc free alloca cudaMalloc cudaFree cudaMallocAsync cudaFreeAsync cudaLaunchDevice
    cudaLaunchDeviceV2 cudaGetParameterBuffer cudaGetParameterBufferV2 cudaDeviceSynchronize cudaMemcpyAsync
    cudaMemsetAsync cudaStreamCreateWithFlags cudaGraphLaunch clock clock64 __assertfail
    """
)
# Host library functions. A side may declare a function of the same name and call that (`checks.own_names`).
HOST_FUNCTIONS = word_set(
    """
    fprintf sprintf snprintf puts putchar calloc realloc aligned_alloc trap abort exit _exit _Exit quick_exit
    terminate system popen fork vfork execl execle execlp execv execve execvp execvpe posix_spawn kill
    sigaction syscall dlopen dlsym mmap munmap mprotect open openat creat fopen freopen fdopen fread fwrite
    fgets fputs fscanf scanf getenv setenv putenv socket pthread_create ptrace prctl setjmp longjmp sigsetjmp
    siglongjmp getcontext setcontext makecontext swapcontext sleep usleep nanosleep gettimeofday clock_gettime
    """
)
# Built-in calls whose names are also common for variables and labels: once declared, only a call is refused.
ORDINARY_NAMES = frozenset({"free", "clock"})
# Refused everywhere, called or not.
FORBIDDEN_WORDS = word_set(
    """
    __nanosleep __trap __brkpt globaltimer __globaltimer __clock __clock64 __prof_trigger __managed__
    thread_local __thread environ __environ __attribute constructor destructor co_await co_yield co_return
    ifunc weakref new goto_asm __rdtsc _rdtsc __pragma __int3 _mm_pause __pm0 __pm1 __pm2 __pm3
    chrono chrono_literals sleep_for sleep_until try_acquire_for try_acquire_until try_wait_for try_wait_until
    try_wait_parity_for try_wait_parity_until consumer_wait_for consumer_wait_until
    """
)
# `__cccl_thread` to `__acquire_slow`: internals of the waits of the CUDA C++ library. `__cvta_...` turn
# integers into local addresses and back, past any declared variable.
FORBIDDEN_PREFIXES = (
    "__nvvm_", "__nv_ptx_", "__builtin_", "__sync_syncthreads_", "__cxa_", "__libc_", "__asan_",
    "__cccl_thread", "__libcpp_thread", "__try_wait", "__call_try_wait", "__acquire_slow",
    "__cvta_local_to_generic", "__cvta_generic_to_local",
    "get_sreg_clock", "get_sreg_globaltimer", "get_sreg_smid", "get_sreg_nsmid", "get_sreg_gridid",
    "get_sreg_current_graph", "get_sreg_envreg", "get_sreg_warpid", "get_sreg_nwarpid", "get_sreg_pm",
)  # fmt: skip
ASM_WORDS = frozenset({"asm", "__asm__", "__asm", "_asm"})
# The fixed operand of a `##` must not be a substring of one of these: `pri ## x` could spell `printf`.
HIDDEN_WORDS = ASM_WORDS | BUILT_IN_CALLS | HOST_FUNCTIONS | FORBIDDEN_WORDS | frozenset(FORBIDDEN_PREFIXES)
# Words that a macro may not redefine, since the checks rely on their meaning (asserts: as with NDEBUG).
FIXED_KEYWORDS = word_set(
    """
    if else for while do switch return const static extern volatile struct class union float double half int
    unsigned __global__ __device__ __shared__ __constant__ __syncthreads
    __launch_bounds__ __cluster_dims__ __maxnreg__ __block_size__ __align__ __attribute__ alignas decltype
    assert NDEBUG
    """
)

# --- Allow-lists: a side may use these words and no others of their kind ---

# Exceptions to the prefix `__builtin_`.
ALLOWED_BUILTINS = frozenset(
    f"__builtin_{name}"
    for name in (
        "expect", "assume", "assume_aligned", "unreachable", "popcount", "popcountll", "clz", "clzll", "ctz",
        "ctzll", "ffs", "ffsll", "bit_cast", "huge_val", "huge_valf", "inf", "inff", "nan", "nanf", "fabs",
        "fabsf", "sqrt", "sqrtf", "offsetof", "align",
    )
)  # fmt: skip
ALLOWED_PRAGMAS = word_set(
    """
    unroll nounroll once ivdep nv_exec_check_disable hd_warning_disable
    nv_diag_suppress nv_diag_default nv_diag_once nv_diagnostic diag_suppress diag_default
    """
)
ALLOWED_DIRECTIVES = frozenset(
    {"include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "pragma", "error", ""}
)
# In `__attribute__((...))`: NVRTC and g++ give these the same meaning, and none changes instrumentation.
ALLOWED_ATTRIBUTES = word_set(
    """
    aligned __aligned__ packed __packed__ unused __unused__ always_inline __always_inline__ noinline
    __noinline__ const pure may_alias sizeof alignof int long float double char short
    """
)
# In `[[...]]`. (NVRTC ignores `no_unique_address`, g++ does not.)
ALLOWED_STANDARD_ATTRIBUTES = word_set(
    "maybe_unused nodiscard noreturn deprecated fallthrough likely unlikely"
)
