"""Structs by value that hold pointers: while a draft is made, each member is a parameter of its own.

So everything inferred about pointers and numbers applies to members too; afterwards they become one argument
again. If the kernel uses a struct as a whole (passes it on, copies it, calls a method), every pointer in it
counts as passed to an unknown function. Not covered: structs of numbers alone (`struct_numbers`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from kcurate.cuda_source.launches.launch_sites import Launch as HostLaunch
from kcurate.cuda_source.semantics.code_index import Code, Function
from kcurate.cuda_source.semantics.pointer_paths import path_in
from kcurate.cuda_source.text.brackets import split_arguments
from kcurate.draft.inferred import accessors
from kcurate.draft.inferred.struct_numbers import PATH, with_pointers
from kcurate.draft.sketch import Draft
from kcurate.problem import c_types as types
from kcurate.records import Arg, BufferArg, Expr, Kernel, Launch, Param, Scalar, ValueArg

_LISTED = re.compile(r"(?:[A-Za-z_][\w:]*\s*)?\{(.*)\}", re.DOTALL)
_DESIGNATED = re.compile(r"\.(\w+)\s*=\s*(.*)", re.DOTALL)
# A function that no code defines.
HANDED_ON = "handed_on_whole"


@dataclass(frozen=True)
class Unfolded:
    """A kernel, its code and a launch with a parameter for each member that the kernel reads.

    `structs` has the members of each struct by the parameter's name; `accessors` are those of PyTorch.
    """

    original: Kernel
    kernel: Kernel
    device: Code
    launch: HostLaunch
    structs: Mapping[str, tuple[types.PlacedMember, ...]]
    accessors: frozenset[str] = frozenset()

    def fold(self, draft: Draft) -> Draft:
        """The draft with the struct's members as one argument again."""
        if not self.structs:
            return draft
        problem = draft.known.problem
        scalars = dict(problem.scalars)
        ((variant, side),) = draft.known.sides.items()
        plan = tuple(
            replace(step, args=tuple(self._args(step, scalars))) if isinstance(step, Launch) else step
            for step in side.plan
        )
        known = replace(
            draft.known, problem=replace(problem, scalars=scalars), sides={variant: replace(side, plan=plan)}
        )
        owners = {_flat(name, member): name for name, members in self.structs.items() for member in members}
        remarks = []
        for remark in draft.remarks:
            place, _, member = remark.place.partition(".")
            owner = owners.get(member) if place == "scalars" else None
            text = f"{member.removeprefix(f'{owner}_')}: {remark.text}"
            remarks.append(replace(remark, place=f"scalars.{owner}", text=text) if owner else remark)
        return replace(draft, known=known, remarks=tuple(remarks))

    def _args(self, step: Launch, scalars: dict[str, Scalar]) -> Iterator[Arg]:
        args_by_name = dict(zip((param.name for param in self.kernel.params), step.args, strict=True))
        for param in self.original.params:
            members = self.structs.get(param.name)
            if members is None:
                yield args_by_name[param.name]
                continue
            values: dict[str, Expr | float] = {member.field.name: 0 for member in members}
            pointers: list[str | BufferArg] = []
            byte_offsets: list[int] = []
            for member in members:
                arg = args_by_name.get(_flat(param.name, member))
                if member.pointer and isinstance(arg, str | BufferArg):
                    pointers.append(arg)
                    byte_offsets.append(member.at)
                elif isinstance(arg, ValueArg):
                    values[member.field.name] = arg.value
                elif isinstance(arg, str):
                    scalar = scalars.pop(arg, None)
                    values[member.field.name] = scalar.value if scalar is not None else arg  # type: ignore[assignment]
            values = accessors.with_strides(values) if param.name in self.accessors else values
            bare = len(pointers) == len(members)
            if not bare:
                scalars[param.name] = Scalar(tuple(member.field for member in members), values)
            yield with_pointers(pointers, () if bare else tuple(byte_offsets), None if bare else param.name)


def unfold(
    kernel: Kernel, device: Code, function: Function, unit: Code, launch: HostLaunch, names: Mapping[str, str]
) -> Unfolded:
    """The kernel with the members of structs that hold pointers as its parameters; unchanged if it has none.

    A member's argument is the value that the host code in `unit` sets it to, if there is only one.
    """
    unchanged = Unfolded(kernel, kernel, device, launch, {})
    views = {param.name: view for param in kernel.params if (view := accessors.layout(param.type, names))}
    structs = {**_with_pointers_inside(kernel, device, names), **views}
    if not structs or device.aligned or len(launch.arguments) != len(kernel.params):
        return unchanged
    listed = next(device.tree.nodes("parameter_list", within=function.node))
    texts = [device.of(node) for node in listed.named_children]
    if len(texts) != len(kernel.params):
        return unchanged
    if (renamed := _body_with_members(device, function, structs, views.keys())) is None:
        return unchanged
    body, read_members = renamed
    params, arguments, declared = [], [], []
    for param, text, argument in zip(kernel.params, texts, launch.arguments, strict=True):
        if param.name not in structs:
            params.append(param)
            declared.append(text)
            arguments.append(argument)
            continue
        members, passed = read_members[param.name], argument.expression
        params += [_param(param.name, member) for member in members]
        declared += [f"{param.type} {param.name}" for param in params[len(params) - len(members) :]]
        if param.name in views:
            expressions = accessors.expressions(passed, members, unit, launch.at)
        else:
            order = [member.name for member in types.members(param.type, names, device.text) or ()]
            expressions = list(_expressions(param.name, passed, members, order, unit, launch.at))
        arguments += [replace(argument, expression=expression, allocation=None) for expression in expressions]
    if len({param.name for param in params}) != len(params) or len(arguments) != len(params):
        return unchanged
    between = device.text[listed.end_byte : function.body]
    definition = f"({', '.join(declared)}){between}{body}"
    text = device.text[: listed.start_byte] + definition + device.text[function.end :]
    return Unfolded(
        kernel,
        replace(kernel, params=tuple(params)),
        device.changed(text),
        replace(launch, arguments=tuple(arguments)),
        structs,
        frozenset(views),
    )


def _body_with_members(
    device: Code, function: Function, structs: Mapping[str, tuple[types.PlacedMember, ...]], views: Set[str]
) -> tuple[str, dict[str, list[types.PlacedMember]]] | None:
    """The kernel's body with each member as a name of its own, and the members that it reads, by struct.

    `views` are the structs that are accessors. None if the body uses such a name already.
    """
    body = device.text[function.body : function.end]
    read_members: dict[str, list[types.PlacedMember]] = {}
    for name, members in structs.items():
        if any(re.search(rf"\b{re.escape(_flat(name, member))}\b", body) for member in members):
            return None
        if name in views:
            body = accessors.with_members(body, name, len(members) // 2)
        body, read_members[name] = _members_as_names(body, name, members)
    return body, read_members


def _with_pointers_inside(
    kernel: Kernel, device: Code, names: Mapping[str, str]
) -> dict[str, tuple[types.PlacedMember, ...]]:
    """The members of each parameter that is a struct by value with pointers, by the parameter's name."""
    structs = {}
    for param in kernel.params:
        members = None if param.pointer else types.layout(param.type, names, device.text, pointers=True)
        if members is not None and any(member.pointer for member in members):
            structs[param.name] = members
    return structs


def _param(struct: str, member: types.PlacedMember) -> Param:
    type_text = member.pointer or _C_NAMES[member.field.dtype]
    pointer = bool(member.pointer)
    return Param(_flat(struct, member), type_text, const="const" in type_text, pointer=pointer)


def _expressions(
    struct: str, passed: str, members: Sequence[types.PlacedMember], order: Sequence[str], unit: Code, at: int
) -> Iterator[str]:
    """What the host code gives each member of a struct that it passes as `passed`."""
    owner = path_in(passed)
    if not PATH.fullmatch(owner) or "[" in passed:
        owner = f"{struct}_host"
    for member in members:
        yield _assigned(unit, owner, member, order, at) or f"{owner}.{member.path}"


def _assigned(
    unit: Code, owner: str, member: types.PlacedMember, order: Sequence[str], at: int
) -> str | None:
    """What the host code assigns to a pointer member, or has for a member in an initialiser list; None if
    neither is plain.

    A number that is assigned is found by the member's path.
    """
    assigned = unit.settings(f"{owner}.{member.path}", at)
    if assigned:
        plain = len(assigned) == 1 and assigned[0].value and not assigned[0].updates and member.pointer
        return assigned[0].value if plain else None
    value = _in_list(unit, owner, member, order, at)
    return value if value and not value.startswith("{") and (member.pointer or "(" not in value) else None


def _in_list(unit: Code, owner: str, member: types.PlacedMember, order: Sequence[str], at: int) -> str | None:
    """The item for a member in the initialiser list of a struct; None if the struct is not set to one
    list."""
    whole_settings = [
        setting for setting in unit.settings(owner, at) if setting.value and not setting.updates
    ]
    if len(whole_settings) != 1 or member.path not in order:
        return None
    listed = _LISTED.fullmatch(whole_settings[0].value)
    if listed is None and whole_settings[0].how != "{":
        return None
    text = listed[1] if listed is not None else whole_settings[0].value
    items = [item.decode("latin-1") for item in split_arguments(text.encode("latin-1"))]
    designated = {match[1]: match[2] for item in items if (match := _DESIGNATED.fullmatch(item))}
    index = order.index(member.path)
    return designated.get(member.path) if designated else items[index] if index < len(items) else None


_C_NAMES = {dtype: name for name, dtype in reversed([*types.DTYPES.items()])}


def _flat(name: str, member: types.PlacedMember) -> str:
    return f"{name}_{member.field.name}"


def _members_as_names(
    body: str, name: str, members: tuple[types.PlacedMember, ...]
) -> tuple[str, list[types.PlacedMember]]:
    """The body with each member as a name of its own, and the members that occur (all if it is used
    whole)."""
    by_path = {tuple(member.path.split(".")): member for member in members}
    read_paths: set[str] = set()
    used_whole = False

    def member(match: re.Match[str]) -> str:
        nonlocal used_whole
        words = re.findall(r"\w+", match[1] or "")
        for count in range(len(words), 0, -1):
            prefix = by_path.get(tuple(words[:count]))
            if prefix is not None:
                read_paths.add(prefix.path)
                return ".".join([_flat(name, prefix), *words[count:]])
        used_whole = True
        return match[0]

    renamed = re.sub(rf"(?<![\w.>])\b{re.escape(name)}\b((?:\s*\.\s*[A-Za-z_]\w*)*)", member, body)
    if not used_whole:
        return renamed, [prefix for prefix in members if prefix.path in read_paths]
    handed = "".join(f" {HANDED_ON}({_flat(name, prefix)});" for prefix in members if prefix.pointer)
    return renamed.replace("{", "{" + handed, 1), [prefix for prefix in members if "[" not in prefix.path]
