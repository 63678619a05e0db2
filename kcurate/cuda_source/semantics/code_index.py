"""An index of code that is read, not rewritten: its functions, calls, types, and the values given to names.

Macros that would hide structure are expanded first, so positions refer to `Code.text`, not to a file.
Expressions are given as text. Not covered: the values of expressions, overload resolution.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from kcurate.core.grouping import grouped
from kcurate.cuda_source.launches.launch_sites import Launch, find_launches
from kcurate.cuda_source.launches.template_heads import template_params
from kcurate.cuda_source.parse.items import parse
from kcurate.cuda_source.parse.syntax_tree import Node, Tree, ancestors, function_declarator
from kcurate.cuda_source.preprocess.expansion import without_macros
from kcurate.cuda_source.preprocess.macros import annotating, annotations_in, blanked
from kcurate.cuda_source.semantics import c_expressions
from kcurate.cuda_source.semantics.declarations import SETTING, Setting, declarator, returned_by, set_by
from kcurate.cuda_source.semantics.pointer_paths import path_of, without_casts
from kcurate.cuda_source.text.blanking import blank_literals, numbered, parseable

_INDEXED = SETTING | {"function_definition", "type_definition", "alias_declaration", "call_expression"}
# The head or the end of a struct that says how it is aligned, or a file that says how structs are packed.
_ALIGNED = re.compile(
    rb"#\s*pragma\s+pack|\b(?:struct|class|union)\s+(?:__align__|__builtin_align__|alignas|__attribute__)"
    rb"|\}\s*(?:__align__|__builtin_align__|__attribute__)"
)
_BLOCKS = frozenset(("compound_statement", "for_statement", "for_range_loop", "lambda_expression"))


@dataclass(frozen=True)
class Function:
    """A function with a body; `params` are (type with stars, name), `template` the template parameters.

    `returned` is the returned expression over the parameters, if the body has only declarations and one
    return statement. `defaults` belong to the last parameters. `start`, `body` and `end` are offsets.
    """

    name: str
    params: tuple[tuple[str, str], ...]
    template: tuple[str, ...]
    kernel: bool
    returned: str | None
    start: int
    body: int
    end: int
    node: Node = field(repr=False, compare=False)
    defaults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call:
    """A call of a function by its unqualified name; `template` has the template arguments as text."""

    name: str
    at: int
    args: tuple[str, ...]
    template: tuple[str, ...]
    node: Node = field(repr=False, compare=False)


class Code:
    """One file, or a unit with its includes spliced in, indexed by name; malformed parts are left out.

    `aligned`: whether a struct is aligned or packed explicitly, so that its size does not follow from its
    members.
    """

    def __init__(self, source: bytes) -> None:
        self.aligned = _ALIGNED.search(source) is not None
        bare = blank_literals(numbered(parseable(source)))
        bounds = (name for name, words in annotating(bare).items() if words == {b"__attribute__"})
        plain, self.macros = without_macros(blanked(bare, annotations_in(bare, bounds)))
        self._parsed = parse(plain)
        self.bytes = self._parsed.bare
        self.text = self.bytes.decode("latin-1")
        self.tree = Tree(self.bytes, self._parsed.tree.root_node)
        self._local: dict[tuple[str, int], tuple[Setting, ...]] = {}
        self._used: dict[int, Mapping[str, list[Node]]] = {}

    def changed(self, text: str) -> Code:
        """An index of another text, in which this one's macros are known too."""
        code = Code(text.encode("latin-1"))
        code.aligned, code.macros = self.aligned, {**self.macros, **code.macros}
        return code

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """Every kernel launch, in order."""
        return tuple(find_launches(self._parsed))

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        """Every function with a body, in order, methods included."""
        return tuple(filter(None, map(self._function, self._nodes["function_definition"])))

    def function(self, name: str) -> Function | None:
        """The first function of this name; None: there is none."""
        return next((function for function in self.functions if function.name == name), None)

    @cached_property
    def _nodes(self) -> Mapping[str, list[Node]]:
        """The nodes that the index is made from, by type; one walk of the tree."""
        return grouped((node.type, node) for node in self.tree.nodes(*_INDEXED))

    @cached_property
    def types(self) -> Mapping[str, str]:
        """The type of each `typedef` and `using` name; array types with extents, as in `float[4][4]`."""
        meanings = {}
        for node in (*self._nodes["type_definition"], *self._nodes["alias_declaration"]):
            alias = node.child_by_field_name("declarator") or node.child_by_field_name("name")
            target = node.child_by_field_name("type")
            if target is not None and target.child_by_field_name("body") is not None:
                target = target.child_by_field_name("name")
            sizes = ""
            while alias is not None and alias.type == "array_declarator":
                size = alias.child_by_field_name("size")
                sizes = f"[{self.of(size) if size is not None else ''}]{sizes}"
                alias = alias.child_by_field_name("declarator")
            if alias is not None and target is not None and alias.type == "type_identifier":
                meanings[self.of(alias)] = self.of(target) + sizes
        return meanings

    @cached_property
    def _settings(self) -> Mapping[str, Sequence[Setting]]:
        nodes = [node for kind in SETTING for node in self._nodes[kind]]
        nodes.sort(key=lambda node: (node.start_byte, -node.end_byte))
        settings = (setting for node in nodes for setting in set_by(node, self._scope(node)))
        return grouped((setting.name, setting) for setting in settings)

    @cached_property
    def calls(self) -> Mapping[str, Sequence[Call]]:
        """Calls of functions (not of methods) by unqualified name, in order."""
        calls = filter(None, map(self.call_of, self._nodes["call_expression"]))
        return grouped((call.name, call) for call in calls)

    @cached_property
    def methods(self) -> Mapping[str, tuple[Call, ...]]:
        """Method calls, in order, by the variable or member that they are called on, such as `a.b`."""
        by_owner: dict[str, list[Call]] = defaultdict(list)
        for node in self._nodes["call_expression"]:
            function, arguments = (node.child_by_field_name(field) for field in ("function", "arguments"))
            if function is not None and function.type == "field_expression" and arguments is not None:
                method, owner = (function.child_by_field_name(field) for field in ("field", "argument"))
                args = tuple(map(self.of, arguments.named_children))
                by_owner[path_of(owner)].append(Call(self.of(method), node.start_byte, args, (), node))
        return {name: tuple(some) for name, some in by_owner.items() if name}

    def of(self, node: Node) -> str:
        """The text of a node."""
        return self.text[node.start_byte : node.end_byte]

    def function_at(self, at: int) -> Function | None:
        """The innermost function around a position; None: there is none."""
        number = bisect_right(self._reach[0], at) - 1
        while number >= 0 and self._reach[1][number] > at:
            if self.functions[number].end > at:
                return self.functions[number]
            number -= 1
        return None

    @cached_property
    def _reach(self) -> tuple[list[int], list[int]]:
        """The start of each function; and the largest end up to each."""
        return [function.start for function in self.functions], [
            *accumulate((function.end for function in self.functions), max)
        ]

    def settings(self, name: str, at: int | None = None) -> tuple[Setting, ...]:
        """The declaration of a name and the assignments to it, in order, for its meaning at position `at`.

        For a name declared inside the function around, that is the declaration in the innermost scope and the
        assignments in that function. For a name that the function does not declare, its assignments in the
        function. If `at` is None: the declaration outside functions, and the assignments in all functions.
        """
        function = self.function_at(at) if at is not None else None
        if function is not None and at is not None:
            meaning = self.declared(name, at)
            local = self.settings_in(name, function)
            return tuple(setting for setting in local if self.declared(name, setting.at) == meaning)
        return tuple(setting for setting in self._settings.get(name, ()) if self._means_outside(setting))

    def _means_outside(self, setting: Setting) -> bool:
        function = self.function_at(setting.at)
        if function is None:
            return True
        is_global = any(
            other.type and self.function_at(other.at) is None for other in self._settings[setting.name]
        )
        is_parameter = any(param_name == setting.name for _, param_name in function.params)
        return is_global and not is_parameter and self.declared(setting.name, setting.at) is None

    def settings_in(self, name: str, function: Function) -> tuple[Setting, ...]:
        """Everything that sets a name inside a function, whatever the name means there."""
        key = name, function.start
        if key not in self._local:
            every = self._settings.get(name, ())
            self._local[key] = tuple(
                setting for setting in every if function.body <= setting.at < function.end
            )
        return self._local[key]

    def declared(self, name: str, at: int) -> Setting | None:
        """The declaration inside a function that a name refers to at a position; None: there is none."""
        function = self.function_at(at)
        around = [
            setting
            for setting in (self.settings_in(name, function) if function is not None else ())
            if setting.type and setting.scope[0] <= at < setting.scope[1] and setting.at <= at
        ]
        return max(around, key=lambda setting: setting.at, default=None)

    def declared_in(self, function: Function) -> Iterator[str]:
        """The names that a function declares, except for its parameters."""
        for name in self._settings:
            if any(setting.type for setting in self.settings_in(name, function)):
                yield name

    def globals_of_type(self, word: str) -> Iterator[Setting]:
        """The declarations of variables outside functions whose type contains a word."""
        for name in self._settings:
            yield from (setting for setting in self.settings(name) if word in setting.type.split())

    def constants(self) -> Iterator[str]:
        """The names that a declaration marked `const` or `constexpr` sets to a number, in any scope.

        The number may be computed from macros and from earlier such names.
        """
        known = set(self.macros)
        for name, settings in self._settings.items():
            marked = (
                setting.value for setting in settings if setting.type.startswith(("const", "static const"))
            )
            nodes = (c_expressions.parse(value) for value in marked if value)
            if any(node is not None and c_expressions.names(node) <= known for node in nodes):
                known.add(name)
                yield name

    def type_of(self, name: str, at: int | None) -> str | None:
        """The declared type of a variable, parameter or global, with stars."""
        function = self.function_at(at) if at is not None else None
        local = self.declared(name, at) if at is not None else None
        for type_text, param_name in function.params if function is not None and local is None else ():
            if param_name == name:
                return type_text
        declaration = local or self.variable(name)
        return declaration.type + "*" * bool(declaration.sizes) if declaration is not None else None

    def variable(self, name: str, at: int | None = None) -> Setting | None:
        """The declaration of a variable, in the function or outside; not of a parameter."""
        local = self.declared(name, at) if at is not None else None
        return local or next((setting for setting in self.settings(name) if setting.type), None)

    def uses(self, name: str, function: Function) -> Iterator[Node]:
        """Every occurrence of a name, or of a member such as `a.b`, in a body; declarations included."""
        if function.start not in self._used:
            body = function.node.child_by_field_name("body")
            nodes = self.tree.nodes("identifier", "field_expression", within=body)
            self._used[function.start] = grouped((self.of(node).replace("->", "."), node) for node in nodes)
        yield from self._used[function.start].get(name, ())

    def arguments_passed_for(self, name: str, function: Function) -> Iterator[tuple[int, str]]:
        """The arguments that other functions pass for a parameter, each with the position of the call."""
        names = [param_name for _, param_name in function.params]
        for call in self.calls.get(function.name, ()) if name in names else ():
            fits = names.index(name) < len(call.args) <= len(names)
            if fits and not function.start <= call.at < function.end:
                yield call.at, call.args[names.index(name)]

    def set_by_call(self, name: str, function: Function | None) -> bool:
        """Whether a call may set a variable, because `&name` or a reference to it is passed."""
        for user in [function] if function is not None else self.functions:
            for use in self.uses(name, user):
                outer = use.parent
                address = outer.type == "pointer_expression" and outer.children[0].type == "&"
                if address and outer.parent.type in ("argument_list", "cast_expression"):
                    return True
                if outer.type == "argument_list" and self._refers(outer, use):
                    return True
        return False

    def _refers(self, arguments: Node, argument: Node) -> bool:
        """Whether a function of this unit takes the argument as a non-const reference."""
        call = self.call_of(arguments.parent)
        at = arguments.named_children.index(argument)
        return call is not None and any(
            function.name == call.name
            and at < len(function.params)
            and function.params[at][0].endswith("&")
            and "const" not in function.params[at][0].split()
            for function in self.functions
        )

    def call_of(self, node: Node) -> Call | None:
        """The function call inside casts and parentheses; None: the expression is none."""
        node = without_casts(node)
        if node.type != "call_expression" or any(c.type == "kernel_call_syntax" for c in node.children):
            return None
        function, arguments = (node.child_by_field_name(field) for field in ("function", "arguments"))
        while function is not None and function.type == "qualified_identifier":
            function = function.child_by_field_name("name")
        template: tuple[str, ...] = ()
        if function is not None and function.type == "template_function":
            template = tuple(map(self.of, function.child_by_field_name("arguments").named_children))
            function = function.child_by_field_name("name")
        if function is None or arguments is None or function.type != "identifier":
            return None
        return Call(
            self.of(function), node.start_byte, tuple(map(self.of, arguments.named_children)), template, node
        )

    def _function(self, node: Node) -> Function | None:
        body, declared_function = node.child_by_field_name("body"), function_declarator(node)
        if body is None or declared_function is None:
            return None
        name = self.of(declared_function.child_by_field_name("declarator"))
        name = name if "operator" in name else name.partition("<")[0].rpartition("::")[2].strip()
        declared = [
            child
            for child in declared_function.child_by_field_name("parameters").named_children
            if "parameter_declaration" in child.type and self.of(child) != "void"
        ]
        params = tuple(map(self._param, declared))
        values = (values.child_by_field_name("default_value") for values in declared)
        defaults = tuple(self.of(value) for value in values if value is not None)
        outer = node.parent
        start, template = node.start_byte, tuple[str, ...]()
        if outer is not None and outer.type == "template_declaration":
            start = outer.start_byte
            head = self.bytes[outer.start_byte : node.start_byte]
            template = tuple(param.name.decode() for param in template_params(head))
        kernel = "__global__" in self.text[start : declared_function.start_byte]
        offsets = start, body.start_byte, node.end_byte
        return Function(name, params, template, kernel, returned_by(body), *offsets, node, defaults)

    def _param(self, node: Node) -> tuple[str, str]:
        param = declarator(node, node.child_by_field_name("declarator"))
        return (param.type + "*" * bool(param.sizes), param.name) if param else (self.of(node), "")

    def set_within(self, node: Node) -> Iterator[Setting]:
        """What the declarations and assignments inside a node set."""
        for setting_node in self.tree.nodes(*SETTING, within=node):
            yield from set_by(setting_node, self._scope(setting_node))

    def _scope(self, node: Node) -> tuple[int, int]:
        block = next((outer for outer in ancestors(node) if outer.type in _BLOCKS), None)
        if block is None or node.type == "field_declaration":
            return 0, len(self.text)
        return block.start_byte, block.end_byte
