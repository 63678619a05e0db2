"""The lists behind the static checks: forbidden words, allowed PTX instructions.

Sources: CUDA C++ Programming Guide (language extensions, device-side functions), PTX ISA (instruction set),
NVRTC user guide (predefined headers). Not covered: searching code for them (`kcurate.judge.checks.source`),
what may be included (`kcurate.headers`).
"""

from __future__ import annotations


def word_set(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


# Sleeps, clocks, traps, the device heap, printf, the host: nothing that a kernel needs in order to compute.
FORBIDDEN_CALLS = word_set(
    """
    printf vprintf fprintf sprintf snprintf puts putchar malloc calloc realloc free alloca aligned_alloc
    cudaMalloc cudaFree cudaMallocAsync cudaFreeAsync cudaLaunchDevice cudaLaunchDeviceV2
    cudaGetParameterBuffer cudaGetParameterBufferV2 cudaDeviceSynchronize cudaMemcpyAsync cudaMemsetAsync
    cudaStreamCreateWithFlags cudaGraphLaunch clock clock64 trap abort exit _exit _Exit quick_exit
    terminate __assertfail assert
    system popen fork vfork execl execle execlp execv execve execvp execvpe posix_spawn kill
    sigaction syscall dlopen dlsym mmap munmap mprotect open openat creat fopen freopen fdopen fread fwrite
    fgets fputs fscanf scanf getenv setenv putenv socket pthread_create ptrace prctl setjmp longjmp sigsetjmp
    siglongjmp getcontext setcontext makecontext swapcontext sleep usleep nanosleep gettimeofday clock_gettime
    """
)
# Names that ordinary code gives to variables; refused only as calls.
ORDINARY_NAMES = frozenset({"free", "exit", "kill", "open", "sleep", "trap", "clock", "system", "assert"})
# Refused everywhere, called or not.
FORBIDDEN_WORDS = word_set(
    """
    __nanosleep __trap __brkpt globaltimer __globaltimer __clock __clock64 __prof_trigger __managed__
    thread_local __thread environ __environ __attribute constructor destructor co_await co_yield co_return
    ifunc weakref new goto_asm __rdtsc _rdtsc __pragma __int3 _mm_pause
    """
)
FORBIDDEN_PREFIXES = (
    "__nvvm_",
    "__nv_ptx_",
    "__builtin_",
    "__sync_syncthreads_",
    "__cxa_",
    "__libc_",
    "__asan_",
)
BUILTINS = frozenset(
    f"__builtin_{name}"
    for name in (
        "expect", "assume", "assume_aligned", "unreachable", "popcount", "popcountll", "clz", "clzll", "ctz",
        "ctzll", "ffs", "ffsll", "bit_cast", "huge_val", "huge_valf", "inf", "inff", "nan", "nanf", "fabs",
        "fabsf", "sqrt", "sqrtf", "offsetof", "align",
    )
)  # fmt: skip
ASM_WORDS = frozenset({"asm", "__asm__", "__asm", "_asm"})
# Words that no pasted token may be a substring of.
HIDDEN_WORDS = ASM_WORDS | FORBIDDEN_CALLS | FORBIDDEN_WORDS | frozenset(FORBIDDEN_PREFIXES)
# Keywords that a macro may not redefine, since the checks rely on their meaning.
FIXED_KEYWORDS = word_set(
    """
    if else for while do switch return const static extern volatile struct class union float double half int
    unsigned __global__ __device__ __shared__ __constant__ __syncthreads
    """
)
# The opcodes that inline assembly may use, without modifiers. Omitted on purpose: nanosleep, trap, brkpt,
# exit, pmevent, call, ret, bra, brx (jumps out of the statement), alloca, stacksave, setmaxnreg.
PTX = word_set(
    """
    abs add addc and applypriority bar barrier bfe bfi bfind bmsk brev cnot copysign cos cp createpolicy
    cvt cvta discard div dp2a dp4a elect ex2 fence fma fns isspacep ld ldmatrix ldu lg2 lop3 mad mad24
    madc match max mbarrier membar min mma mov movmatrix mul mul24 neg not or popc prefetch prefetchu
    prmt rcp red redux rem rsqrt sad selp set setp shf shfl shl shr sin slct sqrt st stmatrix sub subc
    szext tanh testp tex tld4 vote wgmma wmma xor activemask atom griddepcontrol clz
    """
)
# Special registers that tell the time, the SM, or a profiler's counters.
PTX_FORBIDDEN_REGISTERS = ("clock", "globaltimer", "pm", "smid", "nsmid", "gridid", "envreg", "current_graph")
PRAGMAS = frozenset({"unroll", "nounroll", "once", "nv_diag_suppress"})
DIRECTIVES = frozenset(
    {"include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "pragma", "error", ""}
)
ATTRIBUTES = word_set(
    """
    aligned __aligned__ packed __packed__ unused __unused__ always_inline __always_inline__ noinline
    __noinline__ const pure may_alias device global shared constant host optimize sizeof alignof
    int long float double char short
    """
)
