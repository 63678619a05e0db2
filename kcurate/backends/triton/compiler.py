"""Compiles Triton modules to PTX for one architecture, without a GPU; only in a sandboxed worker.

Each launch configuration of a plan is compiled separately, as Triton's launcher would; the kernels are then
merged into one PTX text under distinct names. Triton's last stage, ptxas, runs in another worker
(`kcurate.backends.cuda.ptxas`), because this one must not start processes. Not covered: the sandbox
(`kcurate.judge.workers.inside.isolation`).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import triton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend

from kcurate.backends.base import PTX, Compiled, CompileFailure, EntryPoint
from kcurate.backends.triton import module
from kcurate.errors import BackendError, ProblemError
from kcurate.triton_source import Specialised

DIVISIBLE = [["tt.divisibility", 16]]
# Lines that all PTX texts share: version, target, and the declaration of dynamic shared memory.
_HEAD = re.compile(r"^\.(version|target|address_size) .*$", re.MULTILINE)
_SHARED = re.compile(r"^\s*\.extern \.shared .*;$", re.MULTILINE)
_FUNCTION = re.compile(r"^\.func\s+(?:\([^)]*\)\s*)?(\w+)", re.MULTILINE)
# Tables of the maths library, equal in every text, and option names that are no longer used.
_TABLE = re.compile(r"^(?:\.visible |\.weak )?\.(?:global|const) [^;\[]*?([\w$]+)\[.*;$", re.MULTILINE)
_NAME = re.compile(r"[\w$]+")
_ENTRY = re.compile(r"^\.visible \.entry (\w+)", re.MULTILINE)
# Memory that a launcher would have to allocate for a kernel (tensor descriptors, profiling).
_SCRATCH = ("global_scratch_size", "profile_scratch_size")
# Compiled before any candidate's text, so that Triton has already read and started all that it needs.
_FIRST = """
import triton
import triton.language as tl
@triton.jit
def first(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    held = tl.load(x + at, mask=at < n)
    tl.store(x + at, tl.exp(held) / tl.sum(held), mask=at < n)
"""


class TritonCompiler:
    """Triton for one GPU's architecture (`sm_90`).

    Raises:
        BackendError: this Triton cannot compile at all.
    """

    def __init__(self, arch: str) -> None:
        self._target = GPUTarget("cuda", int(arch.removeprefix("sm_").rstrip("af")), 32)
        self._backend = make_backend(self._target)
        first = EntryPoint("first", ("*fp32:16", "i32", "BLOCK=128", "@num_warps=4", "@num_stages=3"))
        result = self.compile(_FIRST, [first])
        if isinstance(result, CompileFailure):
            raise BackendError(f"triton {triton.__version__} does not compile: {result.log}")

    def folders(self) -> None:
        """None: the sandbox has its own list for workers that execute a candidate's text."""

    def compile(
        self,
        code: str,
        entry_points: Sequence[EntryPoint],
        symbols: Sequence[str] = (),
        *,
        sanitize: bool = False,
        examine: bool = False,
    ) -> Compiled | CompileFailure:
        """Compile one side to PTX."""
        lowered, shared, texts = {}, {}, []
        try:
            names = module.executed(code)
            for number, entry in enumerate(entry_points):
                symbol = f"{entry.name}_{number}"
                ptx, facts = self._ptx(names, entry)
                texts.append(_ENTRY.sub(f".visible .entry {symbol}", _renamed(ptx, symbol)))
                lowered[entry.expression], shared[symbol] = symbol, facts["shared"]
        except ProblemError as error:
            return CompileFailure("error", error.what)
        except RecursionError:
            return CompileFailure("error", "nested too deeply for Triton")
        except MemoryError:
            return CompileFailure("error", "compiling takes too much memory")
        except Exception as error:  # noqa: BLE001 - hostile text may make Triton raise anything
            return CompileFailure("error", _message(error))
        binary = _joined(texts).encode()
        sha256 = hashlib.sha256(binary).hexdigest()
        compiler = f"triton {triton.__version__}"
        return Compiled(PTX, binary, sha256, lowered, (), compiler, dynamic_shared=shared)

    def _ptx(self, names: Mapping[str, Any], entry: EntryPoint) -> tuple[str, Mapping[str, Any]]:
        """The PTX of one kernel, and the properties that Triton reports.

        Raises:
            ProblemError: the kernel needs something that a plan cannot express. Exception: Triton refuses it.
        """
        variant, function = Specialised.of(entry.template), names[entry.name]
        source = _source(function, variant)
        options = self._backend.parse_options(
            {"num_warps": variant.num_warps, "num_stages": variant.num_stages}
        )
        context = ir.context()
        ir.load_dialects(context)
        self._backend.load_dialects(context)
        stages: dict[str, Any] = {}
        self._backend.add_stages(stages, options, source.language)
        facts: dict[str, Any] = {"target": self._target, **vars(options)}
        functions = self._backend.get_codegen_implementation(options)
        ir_module = source.make_ir(self._target, options, functions, self._backend.get_module_map(), context)
        for name, stage in stages.items():
            if name == "cubin":
                break
            ir_module = stage(ir_module, facts)
        if any(facts.get(name) for name in _SCRATCH):
            raise ProblemError(f"{entry.name} needs scratch memory of Triton's launcher")
        if facts["num_warps"] != variant.num_warps:
            raise ProblemError(f"{entry.name} runs with {facts['num_warps']} warps, not {variant.num_warps}")
        return str(ir_module), facts


def _source(function: Any, specialised: Specialised) -> ASTSource:
    """A function with the types, constants and alignments of one launch."""
    signature: dict[str, str] = {}
    constants: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], Any] = {}
    arguments = iter(specialised.parameters)
    for at, parameter in enumerate(function.params):
        name = parameter.name
        if parameter.is_constexpr:
            signature[name] = "constexpr"
            default = parameter.default if parameter.has_default else None
            value = specialised.constants.get(name, getattr(default, "value", default))
            constants[at,] = module.constant(value)
            continue
        if name in specialised.constants:  # the launch passes None
            signature[name], constants[at,] = "constexpr", None
            continue
        argument = next(arguments)
        signature[name] = "constexpr" if argument.one else argument.type
        if argument.one:
            constants[at,] = 1
        if argument.divisible:
            attributes[at,] = DIVISIBLE
    return ASTSource(function, signature, constants, attributes)


def _renamed(ptx: str, symbol: str) -> str:
    """PTX with names of functions and parameters that are unique among the merged texts."""
    (kernel,) = _ENTRY.findall(ptx)
    for name in _FUNCTION.findall(ptx):
        ptx = re.sub(rf"\b{name}\b", f"{name}_{symbol}", ptx)
    return re.sub(rf"\b{kernel}_param_", f"{symbol}_param_", ptx)


def _joined(texts: Sequence[str]) -> str:
    """One PTX text with the kernels of all; head and shared memory are declared once."""
    head = "\n".join(match[0] for match in _HEAD.finditer(texts[0]))
    once: dict[str, None] = {}
    bodies = []
    for text in texts:
        once |= dict.fromkeys(match[0].strip() for match in _SHARED.finditer(text))
        uses = Counter(_NAME.findall(text))
        once |= dict.fromkeys(match[0] for match in _TABLE.finditer(text) if uses[match[1]] > 1)
        bodies.append(_TABLE.sub("", _SHARED.sub("", _HEAD.sub("", text))))
    return "\n".join((head, *once, *bodies)) + "\n"


def _message(error: Exception) -> str:
    """The last line of Triton's message, with its line number."""
    text = str(error) or repr(error)
    place = re.match(r"at (\d+):\d+:\n", text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = lines[-1] if lines else type(error).__name__
    where = f" (line {place[1]} of its function)" if place else ""
    return f"Triton: {message[:500]}{where}"
