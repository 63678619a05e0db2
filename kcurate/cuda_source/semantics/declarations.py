"""What declarations and assignments set: names, types and values; and the members of structs.

Not covered: which of several declarations a name means (`code_index`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from kcurate.cuda_source.parse.syntax_tree import AROUND_NAMES, Node, Tree, below, parse_tree
from kcurate.cuda_source.semantics.pointer_paths import is_path, path_of
from kcurate.cuda_source.text.blanking import parseable

DECLARING = frozenset(("declaration", "field_declaration"))
SETTING = DECLARING | {"assignment_expression", "update_expression", "enumerator", "field_initializer"}
_QUALIFIERS = frozenset(("type_qualifier", "storage_class_specifier"))
_OTHER_LAYOUT = frozenset(("base_class_clause", "bitfield_clause", "virtual"))
_NAMES = frozenset(("identifier", "field_identifier"))
# A name that is no member of something.
_FREE_NAME = re.compile(r"(?<![\w.])(?<!->)(?<!::)[A-Za-z_]\w*")
_HARMLESS = frozenset(("using_declaration", "alias_declaration", "static_assert_declaration"))
MAX_RETURNED = 1000
# What a constructor gives to a member that gets its value later.
_NOTHING = frozenset(("", "0", "nullptr", "NULL", "false"))


@dataclass(frozen=True)
class Setting:
    """A declaration of a name or an assignment to it; the name may be a path such as `grid.x` (also for
    `grid->x`).

    `how` is `=`, `(` or `{` for the form of the value, empty without a value, or an operator such as `+=` and
    `++`. A declaration has a `type` (with qualifiers and stars), array `sizes`, and a `scope`, the span in
    which the name may refer to it. `node` is the value's node.
    """

    name: str
    at: int
    how: str
    value: str = ""
    type: str = ""
    sizes: tuple[str, ...] = ()
    scope: tuple[int, int] = (0, 0)
    node: Node = field(default=None, repr=False, compare=False)

    @property
    def updates(self) -> bool:
        """Whether the new value depends on the previous one."""
        return self.how not in ("", "=", "(", "{")


def text_of(node: Node) -> str:
    """The text of a node."""
    return str(node.text.decode("latin-1"))


def declared_by(node: Node, scope: tuple[int, int] = (0, 0)) -> Iterator[Setting]:
    """The variables that a declaration declares."""
    for outer in node.children_by_field_name("declarator"):
        variable = declarator(node, outer, scope)
        if variable is not None:
            yield variable


def declarator(node: Node, outer: Node, scope: tuple[int, int] = (0, 0)) -> Setting | None:
    """The variable that one declarator of a declaration or parameter declares."""
    base, inner = node.child_by_field_name("type"), outer
    words = [text_of(child) for child in node.children if child.type in _QUALIFIERS]
    stars, sizes, value, how = "", list[str](), None, ""
    while inner is not None and inner.type not in _NAMES:
        if inner.type == "init_declarator":
            value = inner.child_by_field_name("value")
            how = {"argument_list": "(", "initializer_list": "{"}.get(value.type, "=") if value else ""
            if any(child.type == "=" for child in inner.children):
                how = "="
        elif inner.type == "array_declarator":
            size = inner.child_by_field_name("size")
            sizes.insert(0, text_of(size) if size is not None else "")
        elif inner.type == "function_declarator":  # `dim3 grid(n, m)`, which may also be a prototype
            value, how = inner.child_by_field_name("parameters"), "("
        elif inner.type not in AROUND_NAMES:
            return None
        stars += {"pointer_declarator": "*", "reference_declarator": "&"}.get(inner.type, "")
        inner = below(inner)
    if base is None or inner is None:
        return None
    type_text = " ".join([*(word for word in words if "restrict" not in word), text_of(base)])
    text = text_of(value) if value is not None else ""
    return Setting(
        text_of(inner), inner.start_byte, how, text[1:-1] if how in ("(", "{") else text,
        f"{type_text}{stars}", tuple(sizes), scope, value,
    )  # fmt: skip


def set_by(node: Node, scope: tuple[int, int] = (0, 0)) -> Iterator[Setting]:
    """The names that one declaration, assignment or update sets."""
    if node.type in DECLARING:
        yield from declared_by(node, scope)
    elif node.type == "enumerator":
        value = node.child_by_field_name("value")
        name = text_of(node.child_by_field_name("name"))
        text = text_of(value) if value is not None else ""
        yield Setting(name, node.start_byte, "=", text, "const int", node=value)
    elif node.type == "field_initializer":
        name, value = node.named_children[0], node.named_children[-1]
        text = text_of(value)[1:-1].strip()
        if text not in _NOTHING:
            yield Setting(text_of(name), node.start_byte, "(", text, scope=scope, node=value)
    elif node.type == "update_expression":
        argument = node.child_by_field_name("argument")
        how = next(child.type for child in node.children if child.type in ("++", "--"))
        if is_path(argument):
            yield Setting(path_of(argument), node.start_byte, how, node=node)
    else:
        left, right = (node.child_by_field_name(side) for side in ("left", "right"))
        if is_path(left):
            how = next(child.type for child in node.children if "=" in child.type)
            while right.type == "assignment_expression" and how == "=":  # `a = b = c`
                right = right.child_by_field_name("right")
            yield Setting(path_of(left), node.start_byte, how, text_of(right), node=right)


def returned_by(body: Node) -> str | None:
    """The expression that a body of declarations and one return statement returns; None: it has another form.

    Local variables in the expression are replaced by their values.
    """
    statements = [child for child in body.named_children if child.type != "comment"]
    if not statements or statements[-1].type != "return_statement" or statements[-1].named_child_count != 1:
        return None
    values: dict[str, str] = {}

    def without_locals(text: str) -> str:
        return _FREE_NAME.sub(lambda word: values.get(word[0], word[0]), text)

    for variable in (local for statement in statements[:-1] for local in _local(statement)):
        if variable is None or variable.how != "=" or variable.sizes:
            return None
        values[variable.name] = f"({without_locals(variable.value)})"
        if len(values[variable.name]) > MAX_RETURNED:
            return None
    returned = without_locals(text_of(statements[-1].named_children[0]))
    return returned if len(returned) <= MAX_RETURNED else None


def _local(statement: Node) -> Iterator[Setting | None]:
    """The variables of a declaration; None: the statement is no declaration."""
    if statement.type == "declaration":
        yield from declared_by(statement)
    elif statement.type not in _HARMLESS:
        yield None


def _tree(code: str) -> Tree:
    source = parseable(code.encode("latin-1", "replace"))
    return Tree(source, parse_tree(source).root_node)


def _type_names(node: Node) -> list[str]:
    """The names of a struct, class or enumeration: its tag, and the names of a `typedef` around it."""
    outer, tag = node.parent, node.child_by_field_name("name")
    typedef = outer is not None and outer.type == "type_definition"
    alias = outer.child_by_field_name("declarator") if typedef else None
    return [text_of(name) for name in (tag, alias) if name is not None]


@lru_cache(maxsize=16)
def enumerations(code: str) -> Mapping[str, str]:
    """The type that the values of each enumeration have."""
    types: dict[str, str] = {}
    for node in _tree(code).nodes("enum_specifier"):
        base = node.child_by_field_name("base")
        if node.child_by_field_name("body") is not None:
            types |= dict.fromkeys(_type_names(node), text_of(base) if base is not None else "int")
    return types


Member = tuple[str, str, tuple[str, ...]]


@lru_cache(maxsize=16)
def members(code: str) -> Mapping[str, tuple[Member, ...]]:
    """The member variables of each struct and class: type (with stars), name and array extents.

    Left out are classes whose layout their members do not tell: those with bases, virtual functions, bit
    fields, unnamed unions, pointers to functions or arrays, or aligned members. A name of several different
    structs is left out too.
    """
    by_name: dict[str, tuple[Member, ...]] = {}
    several: set[str] = set()
    for node in _tree(code).nodes("struct_specifier", "class_specifier"):
        fields = _fields(node)
        for name in _type_names(node) if fields is not None else ():
            if fields is not None and by_name.setdefault(name, fields) != fields:
                several.add(name)
    return {name: fields for name, fields in by_name.items() if name not in several}


@lru_cache(maxsize=16)
def type_parameters(code: str) -> Mapping[str, tuple[str, ...]]:
    """The template parameters' names of each struct and class that is a template, in order."""
    by_name: dict[str, tuple[str, ...]] = {}
    for node in _tree(code).nodes("struct_specifier", "class_specifier"):
        head = node.parent.child_by_field_name("parameters") if node.parent is not None else None
        if node.parent is not None and node.parent.type == "template_declaration" and head is not None:
            words = [
                re.findall(r"[A-Za-z_]\w*", text_of(each).partition("=")[0]) for each in head.named_children
            ]
            for name in _type_names(node):
                by_name.setdefault(name, tuple(named[-1] if named else "" for named in words))
    return by_name


def _fields(node: Node) -> tuple[Member, ...] | None:
    """The member variables of a struct; None: they do not tell its layout, or it is only declared."""
    body = node.child_by_field_name("body")
    if body is None or any(child.type in _OTHER_LAYOUT for child in node.children):
        return None
    declared = [child for child in body.named_children if child.type in DECLARING]
    if any(child.type in _OTHER_LAYOUT for field in body.named_children for child in field.children):
        return None
    if any(map(_unclear, declared)):
        return None
    variables = (variable for field in declared for variable in declared_by(field))
    return tuple(
        (variable.type, variable.name, variable.sizes)
        for variable in variables
        if variable.how != "(" and "static" not in variable.type.split()
    )


def _unclear(field: Node) -> bool:
    """Whether a member has an unclear layout: a pointer to a function or array, an explicit alignment, or a
    type declared in place.

    That includes unnamed unions and structs, whose members are members of the struct around.
    """
    kind, declarator = field.child_by_field_name("type"), field.child_by_field_name("declarator")
    inside = kind is not None and kind.child_by_field_name("body") is not None
    text = text_of(field)
    parts = declarator.children if declarator is not None else ()
    return (
        (inside and (declarator is not None or kind.child_by_field_name("name") is None))
        or any(word in text for word in ("__attribute__", "alignas", "__align__"))
        or any(part.type == "parenthesized_declarator" for part in parts)
    )
