"""Infers a draft problem and plan from a kernel, its code and its host code.

Each launch of the kernel is evaluated separately; the draft with the fewest open places comes first. Not
covered: whether a draft works (`admit`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kcurate.cuda_source.launches.launch_sites import Launch
from kcurate.cuda_source.parse.parameters import qualified_kernel
from kcurate.cuda_source.semantics.code_index import Code
from kcurate.cuda_source.semantics.inlined_calls import inlined
from kcurate.cuda_source.semantics.pointer_paths import path_in
from kcurate.cuda_source.standalone.unit import BUILD_MACRO, TEMPLATE_GUESS
from kcurate.draft.host.name_values import HostValues, split
from kcurate.draft.inferred.draft_parts import Parts
from kcurate.draft.inferred.launch_configuration import Site
from kcurate.draft.inferred.launch_guess import guess
from kcurate.draft.inferred.one_launch import draft_of
from kcurate.draft.inferred.struct_members import unfold
from kcurate.draft.sketch import Draft, Reason, Remark, nothing
from kcurate.records import Kernel, LaunchSite
from kcurate.suites.problems import tied


def drafts(kernel: Kernel, code: str, units: Iterable[Code]) -> tuple[Draft, ...]:
    """The drafts from a kernel's launches, those with the fewest open places first; at least one.

    `code` is the kernel's self-contained file, `units` the translation units that may launch it. If none of
    them launches it, the launch sites in the record are used.
    """
    device = inlined(Code(code.encode("latin-1", "replace")), kernel.name)
    launching = [unit for unit in units if _launches(kernel, unit)]
    if not launching and kernel.launch_sites:
        launching = [Code(stand_in(kernel.name, kernel.launch_sites))]
    inferred = [draft for unit in launching for draft in _of_unit(kernel, device, unit)]
    if not launching and (launch := guess(kernel, code, several=True)) is not None:
        unit = Code(stand_in(kernel.name, [launch.site(kernel)]))
        remark = Remark("plan", f"guess: nothing launches it; <<<{launch.text}>>> is what its code suggests")
        drafted = _of_unit(kernel, device, unit)
        inferred = [replace(draft, remarks=(remark, *draft.remarks)) for draft in drafted]
    inferred.sort(key=lambda draft: (sum(remark.open for remark in draft.remarks), len(draft.remarks)))
    if not inferred:
        why = "no launch of this kernel was found"
        inferred = [nothing(kernel, why, "plan", Reason.NO_LAUNCH_SITE)]
    return tuple(replace(draft, known=tied(draft.known, code)) for draft in inferred)


def _launches(kernel: Kernel, unit: Code) -> Sequence[Launch]:
    """The unit's launches of a kernel: those known to its record, if it has any of them.

    Others may be of a kernel of that name in another namespace, or in another file of the folder.
    """
    named = [launch for launch in unit.launches if launch.kernel.decode("latin-1") == kernel.name]
    sites = {_written(site) for site in kernel.launch_sites}
    return [launch for launch in named if _written(launch) in sites] or named


def _written(launch: Launch | LaunchSite) -> tuple[str, ...]:
    return launch.grid, launch.block, *(argument.expression for argument in launch.arguments)


def _of_unit(kernel: Kernel, device: Code, unit: Code) -> Iterator[Draft]:
    function = device.function(kernel.name)
    if function is None:
        return
    name = qualified_kernel(device.text, kernel.name)
    instances = [_arguments(instance) for instance in kernel.instantiations] or [()]
    for launch in _launches(kernel, unit):
        arguments = _instance(launch, instances)
        template = dict(zip(function.template, arguments, strict=False))
        values = HostValues(unit, template)
        names = {**unit.types, **unit.macros, **device.types, **device.macros, **template}
        by_members = unfold(kernel, device, function, unit, launch, names)
        site = Site(by_members.launch, values, values.scope(launch.at))
        # A template argument is a compile-time constant, never a size.
        bound = zip(launch.template_args, arguments, strict=False)
        numbers = ((text, int(value)) for text, value in bound if text.isidentifier() and value.isdigit())
        site.frozen.update(numbers)
        if arguments and "{" in "".join(arguments):
            continue
        function_by_members = by_members.device.function(kernel.name)
        assert function_by_members is not None, "its members are parameters of the same function"
        built = draft_of(
            Parts(by_members.kernel, by_members.device, function_by_members, site, template), name, arguments
        )
        built, remarks = by_members.fold(built), list[Remark]()
        if BUILD_MACRO in kernel.shims:
            why = "guess: macros that only the build defines have the values in the kernel's file"
            remarks.append(Remark("plan", why))
        if function.template and not arguments:
            remarks.append(Remark("plan.template", "the template arguments", Reason.TEMPLATE))
        elif TEMPLATE_GUESS in kernel.shims:
            why = "guess: nothing in the sources tells the template arguments"
            remarks.append(Remark("plan.template", why))
        yield replace(built, remarks=(*remarks, *built.remarks))


def _arguments(instance: str) -> tuple[str, ...]:
    match = re.search(r"<(.*)>\Z", instance, re.DOTALL)
    return tuple(split(match[1], angles=True)) if match else ()


def _instance(launch: Launch, instances: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The instance that a launch names in the words of the record; else the first."""
    named = ["".join(argument.split()) for argument in launch.template_args]
    for instance in instances:
        if ["".join(argument.split()) for argument in instance[: len(named)]] == named:
            return instance
    return instances[0]


def stand_in(name: str, sites: Iterable[LaunchSite]) -> bytes:
    """Host code reconstructed from the launch sites of a record, for trees that are not available."""
    out = []
    for index, site in enumerate(sites):
        out.append(f"void launch_{index}() {{")
        allocated = (
            (path_in(argument.expression), argument.allocation)
            for argument in site.arguments
            if argument.allocation
        )
        out += [f"  cudaMalloc(&{pointer}, {size});" for pointer, size in allocated]
        shared = f", {site.shared_bytes}" if site.shared_bytes else ""
        template = f"<{', '.join(site.template_args)}>" if site.template_args else ""
        passed = ", ".join(argument.expression for argument in site.arguments)
        out += [f"  {name}{template}<<<{site.grid}, {site.block}{shared}>>>({passed});", "}"]
    return "\n".join(out).encode("utf-8", "replace")
