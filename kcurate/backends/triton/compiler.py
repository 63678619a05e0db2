"""Triton modules compiled to PTX for one architecture, without a GPU; only in a sandboxed worker.

Each launch configuration of a plan is compiled on its own, as Triton's launcher would; the kernels are then
put into one PTX text under names of their own. Triton's last stage, ptxas, runs in another worker
(`kcurate.backends.cuda.ptxas`), because this one may start no process. Not covered: the sandbox
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
# What PTX texts share: the version and target, and the one name of dynamic shared memory.
_HEAD = re.compile(r"^\.(version|target|address_size) .*$", re.MULTILINE)
_SHARED = re.compile(r"^\s*\.extern \.shared .*;$", re.MULTILINE)
_FUNCTION = re.compile(r"^\.func\s+(?:\([^)]*\)\s*)?(\w+)", re.MULTILINE)
# Tables of the maths library, the same in every text, and names of options that nothing reads any more.
_TABLE = re.compile(r"^(?:\.visible |\.weak )?\.(?:global|const) [^;\[]*?([\w$]+)\[.*;$", re.MULTILINE)
_NAME = re.compile(r"[\w$]+")
_ENTRY = re.compile(r"^\.visible \.entry (\w+)", re.MULTILINE)
# A kernel needs memory that a launcher would have to allocate (tensor descriptors, profiling).
_SCRATCH = ("global_scratch_size", "profile_scratch_size")

# Compiled before any candidate's text, so that whatever Triton reads and starts is there already.
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
        made = self.compile(_FIRST, [first])
        if isinstance(made, CompileFailure):
            raise BackendError(f"triton {triton.__version__} does not compile: {made.log}")

    def folders(self) -> None:
        """None: what a worker that executes text may read is the sandbox's own list."""

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
        except Exception as error:  # noqa: BLE001 - hostile text: whatever Triton raises refuses it
            return CompileFailure("error", _told(error))
        binary = _joined(texts).encode()
        sha256 = hashlib.sha256(binary).hexdigest()
        compiler = f"triton {triton.__version__}"
        return Compiled(PTX, binary, sha256, lowered, (), compiler, dynamic_shared=shared)

    def _ptx(self, names: Mapping[str, Any], entry: EntryPoint) -> tuple[str, Mapping[str, Any]]:
        """The PTX of one kernel, and what Triton says of it.

        Raises:
            ProblemError: the kernel needs what a plan cannot give. Exception: Triton refuses the text.
        """
        wanted, function = Specialised.of(entry.template), names[entry.name]
        source = _source(function, wanted)
        options = self._backend.parse_options(
            {"num_warps": wanted.num_warps, "num_stages": wanted.num_stages}
        )
        context = ir.context()
        ir.load_dialects(context)
        self._backend.load_dialects(context)
        stages: dict[str, Any] = {}
        self._backend.add_stages(stages, options, source.language)
        facts: dict[str, Any] = {"target": self._target, **vars(options)}
        functions = self._backend.get_codegen_implementation(options)
        made = source.make_ir(self._target, options, functions, self._backend.get_module_map(), context)
        for name, stage in stages.items():
            if name == "cubin":
                break
            made = stage(made, facts)
        if any(facts.get(name) for name in _SCRATCH):
            raise ProblemError(f"{entry.name} needs scratch memory of Triton's launcher")
        if facts["num_warps"] != wanted.num_warps:
            raise ProblemError(f"{entry.name} runs with {facts['num_warps']} warps, not {wanted.num_warps}")
        return str(made), facts


def _source(function: Any, wanted: Specialised) -> ASTSource:
    """A function with the types, constants and alignments of one launch."""
    signature: dict[str, str] = {}
    constants: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], Any] = {}
    passed = iter(wanted.parameters)
    for at, parameter in enumerate(function.params):
        name = parameter.name
        if parameter.is_constexpr:
            signature[name] = "constexpr"
            default = parameter.default if parameter.has_default else None
            value = wanted.constants.get(name, getattr(default, "value", default))
            constants[at,] = module.constant(value)
            continue
        if name in wanted.constants:  # it gets None
            signature[name], constants[at,] = "constexpr", None
            continue
        given = next(passed)
        signature[name] = "constexpr" if given.one else given.type
        if given.one:
            constants[at,] = 1
        if given.divisible:
            attributes[at,] = DIVISIBLE
    return ASTSource(function, signature, constants, attributes)


def _renamed(ptx: str, symbol: str) -> str:
    """PTX whose kernel's parameters and own variables have names that no other text has."""
    (kernel,) = _ENTRY.findall(ptx)
    for name in _FUNCTION.findall(ptx):
        ptx = re.sub(rf"\b{name}\b", f"{name}_{symbol}", ptx)
    return re.sub(rf"\b{kernel}_param_", f"{symbol}_param_", ptx)


def _joined(texts: Sequence[str]) -> str:
    """One PTX text with the kernels of all, the head and shared memory declared once."""
    head = "\n".join(match[0] for match in _HEAD.finditer(texts[0]))
    once: dict[str, None] = {}
    bodies = []
    for text in texts:
        once |= dict.fromkeys(match[0].strip() for match in _SHARED.finditer(text))
        read = Counter(_NAME.findall(text))
        once |= dict.fromkeys(match[0] for match in _TABLE.finditer(text) if read[match[1]] > 1)
        bodies.append(_TABLE.sub("", _SHARED.sub("", _HEAD.sub("", text))))
    return "\n".join((head, *once, *bodies)) + "\n"


def _told(error: Exception) -> str:
    """Triton's message in one line, after the place in the module."""
    text = str(error) or repr(error)
    place = re.match(r"at (\d+):\d+:\n", text)
    last = [line.strip() for line in text.splitlines() if line.strip()]
    said = last[-1] if last else type(error).__name__
    where = f" (line {place[1]} of its function)" if place else ""
    return f"Triton: {said[:500]}{where}"
