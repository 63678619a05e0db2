"""Infers a draft problem and plan from a kernel, its code and its host code.

Each launch of the kernel is evaluated separately; the one that leaves the fewest open places is kept. Not
covered: whether the draft works (`admit`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kcurate.cuda_source import kernel_signatures
from kcurate.cuda_source.launches import Launch
from kcurate.draft.building import Builder
from kcurate.draft.host import Host, split
from kcurate.draft.launching import Site
from kcurate.draft.meaning import Meaning
from kcurate.draft.sketch import Draft, Reason, Remark
from kcurate.draft.usage import DeviceCode
from kcurate.records import Kernel, KnownProblem, KnownSide, LaunchSite, Problem, Sizes
from kcurate.suites.problems import tied

_TEMPLATE = r"template\s*<((?:[^<>]|<[^<>]*>)*)>\s*(?:__launch_bounds__\s*\([^)]*\)\s*)?[^;{}<>]*?\b{0}\s*\("


def draft(kernel: Kernel, code: str, units: Iterable[Host]) -> Draft:
    """The best draft that the launches of a kernel give.

    `code` is the kernel's self-contained file, `units` the translation units that may launch it. If none of
    them launches it, the launch sites in the record are used.
    """
    device = DeviceCode(code)
    known = [unit for unit in units if _launches(kernel, unit)]
    if not known and kernel.launch_sites:
        known = [Host(stand_in(kernel.name, kernel.launch_sites))]
    found = [one for unit in known for one in _of_unit(kernel, device, unit)]
    best = min(
        found or [_nothing(kernel)],
        key=lambda one: (sum(remark.open for remark in one.remarks), len(one.remarks)),
    )
    return replace(best, known=tied(best.known, code))


def _launches(kernel: Kernel, unit: Host) -> Sequence[Launch]:
    """The unit's launches of a kernel; if other namespaces have the name, those known to its record."""
    named = [launch for launch in unit.launches if launch.kernel.decode("latin-1") == kernel.name]
    if len({launch.qualified for launch in named}) < 2:
        return named
    sites = {_seen(site) for site in kernel.launch_sites}
    return [launch for launch in named if _seen(launch) in sites] or named


def _seen(launch: Launch | LaunchSite) -> tuple[str, ...]:
    return launch.grid, launch.block, *(argument.expression for argument in launch.arguments)


def _of_unit(kernel: Kernel, device: DeviceCode, unit: Host) -> Iterator[Draft]:
    function = device.functions.get(kernel.name)
    if function is None:
        return
    name = next(
        (n for n in kernel_signatures(device.text.encode()) if n.split("::")[-1] == kernel.name), kernel.name
    )
    first = kernel.instantiations[0] if kernel.instantiations else ""
    match = re.search(r"<(.*)>\Z", first, re.DOTALL)
    arguments = tuple(split(match[1], angles=True)) if match else ()
    names = template_names(device.text, kernel.name)
    template = dict(zip(names, arguments, strict=False))
    for launch in _launches(kernel, unit):
        meaning = Meaning(unit, template)
        site = Site(launch, meaning, meaning.scope(launch.at))
        if arguments and "{" in "".join(arguments):
            continue
        built = Builder(kernel, device, function, site, template).build(name, arguments)
        if names and not arguments:
            remark = Remark("plan.template", "the template arguments", Reason.TEMPLATE)
            built = replace(built, remarks=(remark, *built.remarks))
        yield built


def template_names(text: str, name: str) -> tuple[str, ...]:
    """The names of a kernel's template parameters."""
    match = re.search(_TEMPLATE.replace("{0}", re.escape(name)), text)
    if match is None:
        return ()
    pieces = re.split(r",(?![^<]*>)", match[1])
    return tuple(re.sub(r"=.*", "", piece, flags=re.DOTALL).split()[-1] for piece in pieces if piece.strip())


def stand_in(name: str, sites: Iterable[LaunchSite]) -> bytes:
    """Host code reconstructed from the launch sites of a record, for trees that are not available."""
    out = []
    for index, site in enumerate(sites):
        out.append(f"void launch_{index}() {{")
        for argument in site.arguments:
            if argument.allocation:
                base = re.match(r"[\s(&]*([A-Za-z_]\w*)", argument.expression)
                if base:
                    out.append(f"  cudaMalloc(&{base[1]}, {argument.allocation});")
        shared = f", {site.shared_bytes}" if site.shared_bytes else ""
        template = f"<{', '.join(site.template_args)}>" if site.template_args else ""
        passed = ", ".join(argument.expression for argument in site.arguments)
        out += [f"  {name}{template}<<<{site.grid}, {site.block}{shared}>>>({passed});", "}"]
    return "\n".join(out).encode("utf-8", "replace")


def _nothing(kernel: Kernel) -> Draft:
    problem = Problem(Sizes((), {}), {})
    known = KnownProblem(
        kernel.source.suite, kernel.benchmark, problem, {kernel.variant or "": KnownSide(())}
    )
    remark = Remark("plan", "no launch of this kernel was found", Reason.NO_LAUNCH_SITE)
    return Draft(kernel.id, known, (remark,))
