"""Structs by value that hold pointers: while a draft is made, each member is a parameter of its own.

What is inferred about pointers and numbers so holds for members too; then the arguments are put together.
Of a struct that is used whole (passed on, copied, a method called) every pointer counts as handed to a
function that is not known. Not covered: structs of numbers alone (`struct_numbers`).
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
        owners = {_flat(name, member): name for name, inside in self.structs.items() for member in inside}
        remarks = []
        for remark in draft.remarks:
            place, _, member = remark.place.partition(".")
            owner = owners.get(member) if place == "scalars" else None
            text = f"{member.removeprefix(f'{owner}_')}: {remark.text}"
            remarks.append(replace(remark, place=f"scalars.{owner}", text=text) if owner else remark)
        return replace(draft, known=known, remarks=tuple(remarks))

    def _args(self, step: Launch, scalars: dict[str, Scalar]) -> Iterator[Arg]:
        passed = dict(zip((param.name for param in self.kernel.params), step.args, strict=True))
        for param in self.original.params:
            inside = self.structs.get(param.name)
            if inside is None:
                yield passed[param.name]
                continue
            values: dict[str, Expr | float] = {member.field.name: 0 for member in inside}
            pointers: list[str | BufferArg] = []
            at: list[int] = []
            for member in inside:
                arg = passed.get(_flat(param.name, member))
                if member.pointer and isinstance(arg, str | BufferArg):
                    pointers.append(arg)
                    at.append(member.at)
                elif isinstance(arg, ValueArg):
                    values[member.field.name] = arg.value
                elif isinstance(arg, str):
                    scalar = scalars.pop(arg, None)
                    values[member.field.name] = scalar.value if scalar is not None else arg  # type: ignore[assignment]
            values = accessors.with_strides(values) if param.name in self.accessors else values
            bare = len(pointers) == len(inside)
            if not bare:
                scalars[param.name] = Scalar(tuple(member.field for member in inside), values)
            yield with_pointers(pointers, () if bare else tuple(at), None if bare else param.name)


def unfold(
    kernel: Kernel, device: Code, function: Function, unit: Code, launch: HostLaunch, names: Mapping[str, str]
) -> Unfolded:
    """The kernel with the members of its structs that hold pointers as parameters; as it is without such.

    A member's argument is what the host code in `unit` gives it, if that is one value.
    """
    same = Unfolded(kernel, kernel, device, launch, {})
    views = {param.name: view for param in kernel.params if (view := accessors.layout(param.type, names))}
    structs = {**_with_pointers_inside(kernel, device, names), **views}
    if not structs or device.aligned or len(launch.arguments) != len(kernel.params):
        return same
    listed = next(device.tree.nodes("parameter_list", within=function.node))
    texts = [device.of(node) for node in listed.named_children]
    if len(texts) != len(kernel.params):
        return same
    if (renamed := _body_with_members(device, function, structs, views.keys())) is None:
        return same
    body, read = renamed
    params, arguments, declared = [], [], []
    for param, text, argument in zip(kernel.params, texts, launch.arguments, strict=True):
        if param.name not in structs:
            params.append(param)
            declared.append(text)
            arguments.append(argument)
            continue
        members, passed = read[param.name], argument.expression
        params += [_param(param.name, member) for member in members]
        declared += [f"{each.type} {each.name}" for each in params[len(params) - len(members) :]]
        if param.name in views:
            expressions = accessors.expressions(passed, members, unit, launch.at)
        else:
            order = [member.name for member in types.members(param.type, names, device.text) or ()]
            expressions = list(_expressions(param.name, passed, members, order, unit, launch.at))
        arguments += [replace(argument, expression=each, allocation=None) for each in expressions]
    if len({param.name for param in params}) != len(params) or len(arguments) != len(params):
        return same
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
    """The kernel's body with members as names of their own, and those that it reads by struct.

    `views` are the structs that are accessors. None: such a name is taken.
    """
    body = device.text[function.body : function.end]
    read: dict[str, list[types.PlacedMember]] = {}
    for name, inside in structs.items():
        if any(re.search(rf"\b{re.escape(_flat(name, member))}\b", body) for member in inside):
            return None
        if name in views:
            body = accessors.with_members(body, name, len(inside) // 2)
        body, read[name] = _members_as_names(body, name, inside)
    return body, read


def _with_pointers_inside(
    kernel: Kernel, device: Code, names: Mapping[str, str]
) -> dict[str, tuple[types.PlacedMember, ...]]:
    """The members of each parameter that is a struct by value with pointers, by the parameter's name."""
    structs = {}
    for param in kernel.params:
        inside = None if param.pointer else types.layout(param.type, names, device.text, pointers=True)
        if inside is not None and any(member.pointer for member in inside):
            structs[param.name] = inside
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
    """What the host code assigns to a pointer, or has in a member's place of a list; None: nothing plain.

    A number that is assigned is found by the member's path.
    """
    assigned = unit.settings(f"{owner}.{member.path}", at)
    if assigned:
        plain = len(assigned) == 1 and assigned[0].value and not assigned[0].updates and member.pointer
        return assigned[0].value if plain else None
    value = _in_list(unit, owner, member, order, at)
    return value if value and not value.startswith("{") and (member.pointer or "(" not in value) else None


def _in_list(unit: Code, owner: str, member: types.PlacedMember, order: Sequence[str], at: int) -> str | None:
    """What stands in a member's place in the list that a struct is set to; None: it is set to no list."""
    whole = [each for each in unit.settings(owner, at) if each.value and not each.updates]
    if len(whole) != 1 or member.path not in order:
        return None
    listed = _LISTED.fullmatch(whole[0].value)
    if listed is None and whole[0].how != "{":
        return None
    text = listed[1] if listed is not None else whole[0].value
    items = [each.decode("latin-1") for each in split_arguments(text.encode("latin-1"))]
    named = {match[1]: match[2] for each in items if (match := _DESIGNATED.fullmatch(each))}
    place = order.index(member.path)
    return named.get(member.path) if named else items[place] if place < len(items) else None


_C_NAMES = {dtype: name for name, dtype in reversed([*types.DTYPES.items()])}


def _flat(name: str, member: types.PlacedMember) -> str:
    return f"{name}_{member.field.name}"


def _members_as_names(
    body: str, name: str, inside: tuple[types.PlacedMember, ...]
) -> tuple[str, list[types.PlacedMember]]:
    """The body with members as names of their own, and those that occur, all if the struct is used whole."""
    by_path = {tuple(member.path.split(".")): member for member in inside}
    read: set[str] = set()
    whole = False

    def member(match: re.Match[str]) -> str:
        nonlocal whole
        words = re.findall(r"\w+", match[1] or "")
        for count in range(len(words), 0, -1):
            known = by_path.get(tuple(words[:count]))
            if known is not None:
                read.add(known.path)
                return ".".join([_flat(name, known), *words[count:]])
        whole = True
        return match[0]

    renamed = re.sub(rf"(?<![\w.>])\b{re.escape(name)}\b((?:\s*\.\s*[A-Za-z_]\w*)*)", member, body)
    if not whole:
        return renamed, [known for known in inside if known.path in read]
    handed = "".join(f" {HANDED_ON}({_flat(name, known)});" for known in inside if known.pointer)
    return renamed.replace("{", "{" + handed, 1), [known for known in inside if "[" not in known.path]
