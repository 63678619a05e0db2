"""How a kernel of one's own is launched, where its file does not say: as the user wrote it, else guessed.

Not covered: what a launch makes of a problem (`kcurate.draft`), launches in host code (`kcurate.extract`).
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from kcurate.core.notes import Note
from kcurate.cuda_source.launches.launch_sites import Launch
from kcurate.cuda_source.launches.template_heads import template_params
from kcurate.cuda_source.semantics import c_expressions as cexpr
from kcurate.cuda_source.semantics.c_expressions import Node
from kcurate.cuda_source.semantics.code_index import Code
from kcurate.cuda_source.text.brackets import split_arguments
from kcurate.draft.algebra import Poly, from_node
from kcurate.draft.host.idioms import size_of
from kcurate.draft.inferred.launch_configuration import FUNCTIONS, MAX_THREADS, compiled, names_of
from kcurate.draft.inferred.launch_guess import guess, integer_parameters
from kcurate.errors import OptionError
from kcurate.own.kernels import Own
from kcurate.records import Argument, Kernel, LaunchSite

FORM = "'<<<(n + 127) / 128, 128>>>': grid, block, then bytes of shared memory if any, over its parameters"
_BRACKETED = re.compile(
    r"(?P<kernel>[^()]*?)<<<(?P<inside>.*)>>>\s*(?:\((?P<passed>.*)\))?\s*;?\s*", re.DOTALL
)
_DIM3 = re.compile(r"(?:dim3\s*)?(?:\((?P<round>.*)\)|\{(?P<curly>.*)\})|dim3\s+\w+\s*\(.*\)", re.DOTALL)


def written(text: str, own: Own, option: str) -> Kernel:
    """The kernel's record with the launch that the user wrote in an option.

    It is `GRID, BLOCK`, that with bytes of shared memory and a stream, the same in `<<<` and `>>>`, or the
    whole statement: `kernel<<<GRID, BLOCK>>>(arguments);`.

    Raises:
        OptionError: it is not of a form, or uses names that are not among what the kernel is passed.
    """
    kernel = own.half.kernel
    reading = _Reading(text, kernel, Code(own.half.code.encode("latin-1", "replace")), option)
    site = reading.site()
    if not site.template_args:
        refuse_open_template(own, option)
        return replace(kernel, launch_sites=(site,))
    instance = f"{kernel.name}<{', '.join(site.template_args)}>"
    return replace(kernel, launch_sites=(site,), instantiations=(instance,))


def refuse_open_template(own: Own, option: str) -> None:
    """Refuse a template that nothing in sight instantiates.

    Raises:
        OptionError: it is one; the message has the form of what to write.
    """
    kernel = own.half.kernel
    if own.template and not kernel.instantiations:
        what = f"{kernel.name} is a template and nothing says {', '.join(own.template)}"
        device = Code(own.half.code.encode("latin-1", "replace"))
        function = device.function(kernel.name)
        head = device.bytes[function.start : function.node.start_byte] if function else b""
        usual = ", ".join(param.usual.decode() if param.type else "256" for param in template_params(head))
        hint = f"as in {option} '{kernel.name}<{usual}><<<64, 256>>>'"
        raise OptionError(what, where=own.name, hint=hint)


def check_form(text: str | None, option: str) -> None:
    """Refuse what cannot be a launch of any kernel, before anything is read.

    Raises:
        OptionError: it is none.
    """
    if text is not None:
        _split(text, option)


def _split(text: str, option: str) -> tuple[str, str, str | None]:
    """The kernel (may be empty), what stands in the brackets, and what is passed (None: not said)."""
    match = _BRACKETED.fullmatch(text.strip())
    kernel, inside, passed = match.group("kernel", "inside", "passed") if match else ("", text, None)
    parts = split_arguments(inside.encode("utf-8", "replace"))
    if re.search(r"<<<|>>>|;", inside) or not 2 <= len(parts) <= 4 or not all(part.strip() for part in parts):
        raise OptionError(f"not a launch: {text!r}", where=option, hint=f"as in {FORM}")
    return kernel.strip(), inside, passed


class _Reading:
    """What the text of an option says of a kernel's launch."""

    def __init__(self, text: str, kernel: Kernel, device: Code, option: str) -> None:
        self.text, self.kernel, self.device, self.option = text, kernel, device, option
        self.template: dict[str, str] = {}

    def refused(self, why: str) -> OptionError:
        return OptionError(f"{why}: {self.text!r}", where=self.option, hint=f"as in {FORM}")

    def site(self) -> LaunchSite:
        """The launch, every part of which is understood."""
        launch = self._parsed()
        function = self.device.function(self.kernel.name)
        self.template = dict(zip(function.template if function else (), launch.template_args, strict=False))
        arguments = tuple(Argument(argument.expression) for argument in launch.arguments)
        span = self.kernel.span
        site = replace(launch.site(span.path, span.start_line), arguments=arguments)
        known = compiled(self.device)
        passed = self._passed_sizes(launch)
        for extent in self._extents(launch.grid, "grid"):
            self._only(extent, passed | known.keys(), "grid")
        threads = [self._number(extent, known) for extent in self._extents(launch.block, "block")]
        if not all(count > 0 for count in threads) or math.prod(threads) > MAX_THREADS:
            raise self.refused(f"a block has 1 to {MAX_THREADS} threads")
        if launch.shared_bytes is not None:
            shared = self._understood(launch.shared_bytes, "shared memory")
            self._only(shared, passed | known.keys(), "shared memory")
        return site

    def _parsed(self) -> Launch:
        """The launch as host code has it."""
        name, inside, passed = _split(self.text, self.option)
        name = name or self.kernel.name
        if passed is None:
            passed = ", ".join(param.name for param in self.kernel.params)
        host = Code(f"void host() {{ {name}<<<{inside}>>>({passed}); }}".encode("latin-1", "replace"))
        if len(host.launches) != 1:
            raise self.refused("not a launch")
        launch = host.launches[0]
        if launch.kernel.decode("latin-1") != self.kernel.name:
            raise self.refused(f"it launches {launch.kernel.decode('latin-1')}, not {self.kernel.name}")
        if len(launch.arguments) != len(self.kernel.params):
            raise self.refused(f"{len(self.kernel.params)} parameters, {len(launch.arguments)} arguments")
        return launch

    def _passed_sizes(self, launch: Launch) -> frozenset[str]:
        """The names in what is passed for the kernel's integers: what a grid may be over."""
        whole = integer_parameters(self.kernel, self.device)
        passed = zip(self.kernel.params, launch.arguments, strict=True)
        nodes = [cexpr.parse(argument.expression) for param, argument in passed if param.name in whole]
        return frozenset[str]().union(*(cexpr.names(node) for node in nodes if node is not None))

    def _extents(self, text: str, place: str) -> list[Poly]:
        match = _DIM3.fullmatch(text.strip())
        inside = match and (match["round"] if match["round"] is not None else match["curly"])
        listed = inside and text.strip().startswith(("dim3", "{"))
        several = split_arguments(inside.encode()) if inside and listed else []
        texts = [part.decode() for part in several] or [text]
        if len(texts) > 3:
            raise self.refused(f"{place}: more than three extents")
        return [self._understood(part, place) for part in texts]

    def _understood(self, text: str, place: str) -> Poly:
        node = cexpr.parse(text)
        poly = from_node(cexpr.substitute(node, self._bytes)) if node is not None else None
        if poly is None:
            raise self.refused(f"{place}: {text.strip()!r} is not understood")
        return poly

    def _bytes(self, part: Node) -> Node | None:
        """The number for a `sizeof`."""
        size = size_of(self.device, self.template, part.text, None) if part.op == "sizeof" else None
        return cexpr.number(size) if size is not None else None

    def _only(self, extent: Poly, names: frozenset[str], place: str) -> None:
        for name in sorted(names_of(extent) - FUNCTIONS - names):
            integers = ", ".join(sorted(names)) or "none"
            what = f"{place}: {self.kernel.name} is passed no integer {name} (its integers: {integers})"
            raise self.refused(f"{what}, write a number for it")

    def _number(self, extent: Poly, known: dict[str, int]) -> int:
        node = cexpr.parse(extent.text())
        numbers = {name: cexpr.number(value) for name, value in known.items()}
        settled = cexpr.substitute(node, lambda part: numbers.get(part.text)) if node is not None else None
        value = from_node(settled) if settled is not None else None
        if value is None or value.constant is None:
            raise self.refused("the block is not a number")
        return value.constant


def guessed(own: Own, option: str, note: Note) -> Kernel | None:
    """The kernel's record with the launch that its code leaves, which is noted; None: it leaves several."""
    kernel = own.half.kernel
    launch = guess(kernel, own.half.code)
    if launch is None:
        return None
    how = f"guessed from its code: <<<{launch.text}>>> (else: {option} LAUNCH)"
    note(f"{own.name}: nothing launches it, {how}")
    return replace(kernel, launch_sites=(launch.site(kernel),))
