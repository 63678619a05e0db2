"""The launch of a user's kernel that its file does not launch: as the user wrote it, else guessed.

Not covered: the problem that follows from a launch (`kcurate.draft`), launches in host code
(`kcurate.extract`).
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
from kcurate.own.kernels import UserKernel
from kcurate.records import Argument, Kernel, LaunchSite

FORM = "'<<<(n + 127) / 128, 128>>>': grid, block, then bytes of shared memory if any, over its parameters"
_BRACKETED = re.compile(
    r"(?P<kernel>[^()]*?)<<<(?P<configuration>.*)>>>\s*(?:\((?P<arguments>.*)\))?\s*;?\s*", re.DOTALL
)
_DIM3 = re.compile(r"(?:dim3\s*)?(?:\((?P<round>.*)\)|\{(?P<curly>.*)\})|dim3\s+\w+\s*\(.*\)", re.DOTALL)


def written(text: str, user_kernel: UserKernel, option: str) -> Kernel:
    """The kernel's record with the launch that the user wrote in an option.

    The text is `GRID, BLOCK`, optionally with bytes of shared memory and a stream; the same between `<<<` and
    `>>>`; or the whole statement `kernel<<<GRID, BLOCK>>>(arguments);`.

    Raises:
        OptionError: it has another form, or uses names that are no integer arguments of the kernel.
    """
    kernel = user_kernel.kernel
    reading = _Reading(text, kernel, Code(user_kernel.code.encode("latin-1", "replace")), option)
    site = reading.site()
    if not site.template_args:
        refuse_open_template(user_kernel, option)
        return replace(kernel, launch_sites=(site,))
    instance = f"{kernel.name}<{', '.join(site.template_args)}>"
    return replace(kernel, launch_sites=(site,), instantiations=(instance,))


def refuse_open_template(user_kernel: UserKernel, option: str) -> None:
    """Refuse a template that nothing in sight instantiates.

    Raises:
        OptionError: it is one; the message shows what to write.
    """
    kernel = user_kernel.kernel
    if user_kernel.template and not kernel.instantiations:
        what = f"{kernel.name} is a template and nothing says {', '.join(user_kernel.template)}"
        device = Code(user_kernel.code.encode("latin-1", "replace"))
        function = device.function(kernel.name)
        head = device.bytes[function.start : function.node.start_byte] if function else b""
        example = ", ".join(param.usual.decode() if param.type else "256" for param in template_params(head))
        hint = f"as in {option} '{kernel.name}<{example}><<<64, 256>>>'"
        raise OptionError(what, where=user_kernel.name, hint=hint)


def check_form(text: str | None, option: str) -> None:
    """Refuse what cannot be a launch of any kernel, before anything is read.

    Raises:
        OptionError: it has no form of a launch.
    """
    if text is not None:
        _split(text, option)


def _split(text: str, option: str) -> tuple[str, str, str | None]:
    """The kernel (may be empty), the text between `<<<` and `>>>`, and the arguments (None: not written)."""
    match = _BRACKETED.fullmatch(text.strip())
    kernel, configuration, arguments = (
        match.group("kernel", "configuration", "arguments") if match else ("", text, None)
    )
    parts = split_arguments(configuration.encode("utf-8", "replace"))
    if (
        re.search(r"<<<|>>>|;", configuration)
        or not 2 <= len(parts) <= 4
        or not all(part.strip() for part in parts)
    ):
        raise OptionError(f"not a launch: {text!r}", where=option, hint=f"as in {FORM}")
    return kernel.strip(), configuration, arguments


class _Reading:
    """Parses the launch in an option's text, and checks it against the kernel."""

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
        constants = compiled(self.device)
        passed = self._passed_sizes(launch)
        for extent in self._extents(launch.grid, "grid"):
            self._only(extent, passed | constants.keys(), "grid")
        threads = [self._number(extent, constants) for extent in self._extents(launch.block, "block")]
        if not all(count > 0 for count in threads) or math.prod(threads) > MAX_THREADS:
            raise self.refused(f"a block has 1 to {MAX_THREADS} threads")
        if launch.shared_bytes is not None:
            shared = self._understood(launch.shared_bytes, "shared memory")
            self._only(shared, passed | constants.keys(), "shared memory")
        return site

    def _parsed(self) -> Launch:
        """The launch as host code has it."""
        name, configuration, arguments = _split(self.text, self.option)
        name = name or self.kernel.name
        if arguments is None:
            arguments = ", ".join(param.name for param in self.kernel.params)
        host = Code(
            f"void host() {{ {name}<<<{configuration}>>>({arguments}); }}".encode("latin-1", "replace")
        )
        if len(host.launches) != 1:
            raise self.refused("not a launch")
        launch = host.launches[0]
        if launch.kernel.decode("latin-1") != self.kernel.name:
            raise self.refused(f"it launches {launch.kernel.decode('latin-1')}, not {self.kernel.name}")
        if len(launch.arguments) != len(self.kernel.params):
            raise self.refused(f"{len(self.kernel.params)} parameters, {len(launch.arguments)} arguments")
        return launch

    def _passed_sizes(self, launch: Launch) -> frozenset[str]:
        """The names in the arguments for integer parameters; a grid may use only these and constants."""
        integers = integer_parameters(self.kernel, self.device)
        params_and_arguments = zip(self.kernel.params, launch.arguments, strict=True)
        nodes = [
            cexpr.parse(argument.expression)
            for param, argument in params_and_arguments
            if param.name in integers
        ]
        return frozenset[str]().union(*(cexpr.names(node) for node in nodes if node is not None))

    def _extents(self, text: str, place: str) -> list[Poly]:
        match = _DIM3.fullmatch(text.strip())
        listed_text = match and (match["round"] if match["round"] is not None else match["curly"])
        is_list = listed_text and text.strip().startswith(("dim3", "{"))
        several = split_arguments(listed_text.encode()) if listed_text and is_list else []
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

    def _number(self, extent: Poly, constants: dict[str, int]) -> int:
        node = cexpr.parse(extent.text())
        numbers = {name: cexpr.number(value) for name, value in constants.items()}
        numeric = cexpr.substitute(node, lambda part: numbers.get(part.text)) if node is not None else None
        value = from_node(numeric) if numeric is not None else None
        if value is None or value.constant is None:
            raise self.refused("the block is not a number")
        return value.constant


def guessed(user_kernel: UserKernel, option: str, note: Note) -> Kernel | None:
    """The kernel's record with the launch guessed from its code, which is noted; None if several are
    possible."""
    kernel = user_kernel.kernel
    launch = guess(kernel, user_kernel.code)
    if launch is None:
        return None
    how = f"guessed from its code: <<<{launch.text}>>> (else: {option} LAUNCH)"
    note(f"{user_kernel.name}: nothing launches it, {how}")
    return replace(kernel, launch_sites=(launch.site(kernel),))
