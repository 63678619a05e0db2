"""Turns asm into C++: registers become variables, instructions function calls, labels C++ labels.

`kcurate.ptx.rows` defines the instructions. One that is not emulated becomes a call that ends the run as
unsupported, so it matters only if it is reached. Not covered: the functions that are called
(`include/kcurate/ptx*.h`), which code may be judged at all (`kcurate.judge.checks.assembly`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcurate.ptx import rows, table
from kcurate.ptx.parse import Instruction, Label, PtxError, Registers, Scope, Statement, parse

_STRING = r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\''
_ASM = re.compile(rf"{_STRING}|\b(asm|__asm__|__asm)\b\s*(?:(?:volatile|__volatile__)\b\s*)?(?=\()")
_TOKENS = re.compile(rf"{_STRING}|[()\[\]{{}}:,]|[^\"'()\[\]{{}}:,]+|.", re.DOTALL)
_TEXT = re.compile(r'(?:\s*"(?:[^"\\\n]|\\.)*")+\s*')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_OPERAND = re.compile(r'\s*"([=+]?)&?([rlhfdn])"\s*(\(.*\))\s*', re.DOTALL)
# Types by the letter of an operand's constraint; floats are stored as their bits.
_TYPE_OF_CONSTRAINT = {"r": "u32", "l": "u64", "h": "u16", "f": "u32", "d": "u64"}
# Typedefs in `ptx.h`.
_TYPES = frozenset(
    "u8 u16 u32 u64 s8 s16 s32 s64 b8 b16 b32 b64 f32 f64 f16 bf16 f16x2 bf16x2 pred".split()  # noqa: SIM905
)
_WIDE = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
# In the C++ of a row (`kcurate.ptx.rows`): `@name` is a function of `kcu_ptx`; `$x` an operand, or the choice
# for a set of modifiers, joined to the word before it if a letter comes right before `$`.
_PLACEHOLDER = re.compile(r"@(?=[A-Za-z$])|(?P<before>\w?)\$(?P<name>c0|[A-Za-z])")
_ADDRESS = re.compile(r"\[(%?[\w$.]+)(?:([-+])([\w%-]+))?\]")
_NUMBER = re.compile(
    r"(-?)(?:(0[fF])([0-9A-Fa-f]{8})|(0[dD])([0-9A-Fa-f]{16})|(0[xX][0-9A-Fa-f]+|\d+)U?|([\d.eE+-]+))"
)


class _UntranslatedError(Exception):
    """The emulator cannot run a statement; the text says which part of it."""


def translate(code: str) -> str:
    """Code (without comments) with every asm statement as C++, line numbers kept."""
    parts: list[str] = []
    at = 0
    while match := _ASM.search(code, at):
        parts.append(code[at : match.start()])
        at = match.end()
        if match[1] is None:
            parts.append(match[0])
            continue
        sections, at = _sections(code, at)
        parts.append(_whole(sections).replace("\n", " ") + "\n" * code.count("\n", match.start(), at))
    return "".join([*parts, code[at:]])


def _sections(code: str, at: int) -> tuple[list[str], int]:
    """The colon-separated sections of an asm statement, and where it ends."""
    sections, depth = [""], 1
    for match in _TOKENS.finditer(code, at + 1):
        token = match[0]
        depth += (token in ("(", "[", "{")) - (token in (")", "]", "}"))
        if depth == 0:
            return sections, match.end()
        if token == ":" and depth == 1:
            sections.append("")
        else:
            sections[-1] += token
    return sections, len(code)


def _split(text: str) -> list[str]:
    """The parts between commas outside brackets."""
    parts, depth = [""], 0
    for token in _TOKENS.findall(text):
        depth += (token in ("(", "[", "{")) - (token in (")", "]", "}"))
        if token == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return [part for part in parts if part.strip()]


def _whole(sections: Sequence[str]) -> str:
    """One asm statement as C++, without its semicolon."""
    try:
        if not _TEXT.fullmatch(sections[0]):
            raise _UntranslatedError("asm whose text is not a plain string literal")
        text = "".join(literal[1:-1] for literal in re.findall(_STRING, sections[0]))
        statements = parse(_ESCAPE.sub(lambda match: {"n": "\n", "t": " "}.get(match[1], match[1]), text))
        outputs, inputs = (_split(section) for section in [*sections, "", ""][1:3])
        return _Writer(statements, _operands(outputs, inputs)).block()
    except (_UntranslatedError, PtxError) as error:
        return _unsupported(str(error))


def _unsupported(problem: str) -> str:
    quoted = re.sub(r'[\\"\n]', " ", problem)
    return f'::kcu_ptx::unsupported("inline PTX that is not emulated: {quoted}")'


@dataclass(frozen=True)
class _Operand:
    """An operand such as `%0`: its variable, and the C++ before and after the statement's instructions."""

    variable: str
    before: str
    after: str


def _operands(outputs: Sequence[str], inputs: Sequence[str]) -> list[_Operand]:
    operands = []
    for i, text in enumerate([*outputs, *inputs]):
        match = _OPERAND.fullmatch(text)
        if match is None:
            raise _UntranslatedError(f"the operand {text.strip()[:40]}")
        mode, letter, value = match.groups()
        name, place = f"kcu_{i}", f"kcu_place_{i}"
        kind = f"::kcu_ptx::{_TYPE_OF_CONSTRAINT.get(letter, '')}"
        take = {"f": "::kcu_ptx::in_float", "d": "::kcu_ptx::in_double"}.get(letter, f"::kcu_ptx::in<{kind}>")
        if letter == "n":
            operands.append(_Operand(name, f"const long long {name} = (long long){value};", ""))
        elif mode:
            start = f"{take}({place})" if mode == "+" else "0"
            before = f"auto &&{place} = {value}; {kind} {name} = {start};"
            operands.append(_Operand(name, before, f"::kcu_ptx::out({place}, {name});"))
        else:
            operands.append(_Operand(name, f"const {kind} {name} = {take}({value});", ""))
    return operands


class _Writer:
    """Writes the instructions of one asm statement as C++."""

    def __init__(self, statements: Sequence[Statement], operands: Sequence[_Operand]) -> None:
        self._statements, self._operands = statements, operands
        self._registers: dict[tuple[Scope, str], str] = {}
        self._labels: dict[tuple[Scope, str], str] = {}
        self._declared: list[str] = []
        for statement in statements:
            if isinstance(statement, Label):
                self._labels[statement.scope, statement.name] = f"kcu_label_{len(self._labels)}"
            elif isinstance(statement, Registers):
                for name in statement.names:
                    variable = f"kcu_register_{len(self._registers)}"
                    self._registers[statement.scope, name] = variable
                    self._declared.append(f"::kcu_ptx::{_register_type(statement.type)} {variable} = 0;")

    def block(self) -> str:
        """The whole asm statement as one C++ statement."""
        body = [self._statement(statement) for statement in self._statements]
        labels = ", ".join(self._labels.values())
        parts = [
            f"__label__ {labels};" if labels else "",
            *(operand.before for operand in self._operands),
            *self._declared,
            "::kcu_ptx::u64 kcu_sink = 0; bool kcu_carry = false, kcu_no = false;",
            "(void)kcu_sink, (void)kcu_carry, (void)kcu_no;",
            *body,
            *(operand.after for operand in self._operands),
        ]
        return f"do {{ {' '.join(part for part in parts if part)} }} while (0)"

    def _statement(self, statement: Statement) -> str:
        if isinstance(statement, Label):
            return f"{self._labels[statement.scope, statement.name]}:;"
        if isinstance(statement, Registers):
            return ""
        try:
            text = self._instruction(statement)
        except _UntranslatedError:
            text = _unsupported(statement.opcode)
        if not statement.guard:
            return f"{text};"
        return f"if ({self._source(statement.guard, 'pred', statement.scope)}) {{ {text}; }}"

    def _instruction(self, inst: Instruction) -> str:
        if inst.name == "bra":
            return f"goto {self._find(self._labels, inst.operands[0], inst.scope)}"
        meaning = table.find(inst)
        if meaning is None:
            raise _UntranslatedError(inst.opcode)
        modifiers = inst.opcode.split(".")
        values: dict[str, str] = {"c0": "kcu_carry"}
        target, kind = "", ""
        for operand, text in zip(meaning.form.operands, inst.operands, strict=False):
            dtype = self._type(operand.type, meaning.chosen)
            if operand.shape == "scalar" and operand.name in ("d", "p"):
                target, kind = self._target(text, inst.scope), "pred" if operand.name == "p" else dtype
                values[operand.name] = target
            elif operand.shape == "scalar":
                value = self._source(text, dtype, inst.scope)
                values[operand.name] = f"::kcu_ptx::flush({value})" if "ftz" in modifiers else value
            elif operand.shape == "pair":
                first, second = text.split("|")
                values["d"] = self._target(first, inst.scope)
                values["p"] = self._target(second, inst.scope, "kcu_no")
            elif operand.shape == "tensor":
                base, coordinates = text[1:-2].split(",{")
                values[operand.name] = self._address(f"[{base}]", "", inst.scope)
                values["c"] = ", ".join(self._source(x, "s32", inst.scope) for x in coordinates.split(","))
            elif operand.shape == "address":
                space = meaning.chosen.get(operand.type, operand.type)
                values[operand.name] = self._address(text, space, inst.scope)
            else:
                elements = (self._element(part, dtype, inst.scope) for part in text[1:-1].split(","))
                sign = "&" if operand.name == "d" else ""
                values[operand.name] = ", ".join(f"{sign}{element}" for element in elements)
        run = _fill(meaning.form.run, values, meaning.chosen)
        if not target or f"${'p' if kind == 'pred' else 'd'}" in meaning.form.run:
            return run
        for name, call in (("ftz", "flush"), ("sat", "saturate")):
            if name in modifiers:
                run = f"::kcu_ptx::{call}((::kcu_ptx::{kind})({run}))"
        return f"::kcu_ptx::put({target}, (::kcu_ptx::{kind})({run}))"

    def _type(self, written: str, chosen: Mapping[str, str]) -> str:
        """The PTX type of an operand: one written in the row, or that of the instruction."""
        if written == "wide":
            return _WIDE[chosen["T"]]
        dtype = chosen.get(written, written) or chosen.get("T", "b32")
        return dtype if dtype in _TYPES else "b32"

    def _find(self, names: Mapping[tuple[Scope, str], str], name: str, scope: Scope) -> str:
        for depth in range(len(scope), -1, -1):
            if (scope[:depth], name) in names:
                return names[scope[:depth], name]
        raise _UntranslatedError(name)

    def _element(self, text: str, kind: str, scope: Scope) -> str:
        """An element of a vector: a variable, or the bits of a number."""
        if _NUMBER.fullmatch(text):
            return f"::kcu_ptx::raw({self._source(text, kind, scope)})"
        return self._variable(text, scope)

    def _variable(self, text: str, scope: Scope) -> str:
        """The C++ variable of a register or operand."""
        if text[:1] == "%" and text[1:].isdecimal():
            if int(text[1:]) >= len(self._operands):
                raise _UntranslatedError(text)
            return self._operands[int(text[1:])].variable
        return self._find(self._registers, text, scope)

    def _target(self, text: str, scope: Scope, sink: str = "kcu_sink") -> str:
        return sink if text == "_" else self._variable(text, scope)

    def _source(self, text: str, kind: str, scope: Scope) -> str:
        """An input operand as a C++ expression of a PTX type."""
        if text.startswith("!"):
            return f"!{self._source(text[1:], 'pred', scope)}"
        as_kind = f"::kcu_ptx::as<::kcu_ptx::{kind}>"
        if number := _NUMBER.fullmatch(text):
            minus, single, single_bits, double, double_bits, whole, decimal = number.groups()
            if single or double:
                return f"{minus}{as_kind}(0x{single_bits or double_bits}{'u' if single else 'ull'})"
            return f"(::kcu_ptx::{kind})({minus}{decimal})" if decimal else f"{as_kind}({minus}{whole}ll)"
        if text in rows.SPECIAL_REGISTERS:
            return f"{as_kind}({rows.SPECIAL_REGISTERS[text]})"
        return f"{as_kind}({self._variable(text, scope)})"

    def _address(self, text: str, space: str, scope: Scope) -> str:
        match = _ADDRESS.fullmatch(text)
        if match is None:
            raise _UntranslatedError(text)
        base, sign, offset = match.groups()
        value = self._source(base, "u64", scope)
        if offset:
            value += f" {sign} (::kcu_ptx::u64){self._source(offset, 's64', scope)}"
        return f"::kcu_ptx::at{'_shared' if space.startswith('shared') else ''}({value})"


def _register_type(written: str) -> str:
    """The type of the variable that holds a register's bits."""
    if written == "pred":
        return written
    sizes = {"b8": "u16", "f16x2": "u32", "bf16x2": "u32"}
    kind = sizes.get(written) or f"u{written[-2:]}"
    if kind not in _TYPES:
        raise _UntranslatedError(f"registers of type .{written}")
    return kind


def _fill(run: str, values: Mapping[str, str], chosen: Mapping[str, str]) -> str:
    """A row's C++ with its placeholders substituted."""

    def filled(match: re.Match[str]) -> str:
        if match["name"] is None:
            return "::kcu_ptx::"
        name, before = match["name"], match["before"] or ""
        if name in values:
            return before + values[name]
        choice = chosen.get(name, "")
        if choice in _TYPES and not before and run[match.start() - 1 : match.start()] != "@":
            return f"::kcu_ptx::{choice}"
        return before + choice.replace("::", "_")

    return _PLACEHOLDER.sub(filled, run)
