"""Looks for text that a compiler cuts up otherwise than the judge did: our tokens, `g++ -E` and NVRTC.

    python benchmarks/compiler_texts.py [--seconds 1800] [--seed 0]

Random text of comments, quotes, splices, prefixes, digraphs, separators and conditions is written anew
(`kcurate.judge.checks.lexer.rewritten`); what the judge would refuse is skipped. Each line of the rest is
given to a macro that makes text of it, in both compilers, between its own directives; each macro that the
text defines is expanded into text as well. Both must answer with the judge's tokens, for the same lines.
NVRTC has no option that preprocesses alone, so its strings are read from PTX. A disagreement ends the run
with the text and exit code 1. No GPU is needed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
from dataclasses import dataclass, field

from kcurate.backends.cuda import nvrtc
from kcurate.backends.emulator import toolchain
from kcurate.judge.checks.lexer import rewritten, tokenize

FRAGMENTS = (
    "//", "/*", "*/", "/**/", "/", "*", "\\\n", "\\ \n", "\\\t\n", "\\\r\n", "\\", "\n", "\n", "\n", "\r\n",
    "\r", '"', "'", '"a"', "'a'", '"/*"', '"//"', "'\"'", "'\\''", '"\\""', '"\\\\"', "'\\\\'", '"?"',
    "'/'", "\"'\"", 'R"(', ')"', 'LR"x(', 'u8"', "L'", "u", "R", "u8", "LR", "_x", "1'0", "0x1'f", "1'",
    "'0", "0b1'0", "1e+", ".5e-3f", "0x1p-2", "1..2", "1_x", "x'", "a", "b1", "$c", "d$", "_", "and", "not",
    "bitor", "compl", "+", "-", "<", ">", "::", "<::", "<:", "<%", "%", "%:", ":", "->*", ".*", "...", "?",
    "??/", "??'", "&&", "^=", "<<<", " ", " ", "\t", "\f", "\v", "#", "##", "\u00fc", '"\u00fc"', "@", "`",
    "\u2028", "\x00", "\x1a", "\n#if 0\n", "\n#if 1\n", "\n#else\n", "\n#endif\n", "\n#define ",
    "\n# /* */ define ", "\n/* */ #if 0 //\n",
)  # fmt: skip
# Programs that are compiled at once: what NVRTC takes to start is shared.
BATCH = 60
_HEAD = "#define KCU_TEXT_(...) #__VA_ARGS__\n#define KCU_TEXT(...) KCU_TEXT_(__VA_ARGS__)\n"
_PTX = re.compile(r"\.b8 (kcu\d+_\d+)\[\d+\](?: = \{([^}]*)\})?;")
_GCC = re.compile(r'char (kcu\d+_\d+)\[\] = "((?:[^"\\]|\\.)*)";')


@dataclass
class Program:
    """One text as the compilers get it, and the tokens of each string that they must make of it."""

    text: str
    wrapped: str
    expected: dict[str, list[str]]


@dataclass
class Report:
    """What was tried; `disagreement` is the text and what was wrong with it."""

    tried: int = 0
    refused: int = 0
    strings: int = 0
    disagreement: str | None = None
    texts: set[str] = field(default_factory=set)


def pieces(code: str) -> list[str]:
    """The tokens of a line; operators sign by sign, since only their order matters."""
    signs: list[str] = []
    for token in tokenize(code):
        whole = token.kind in ("word", "number", "string", "char")
        signs += [token.text] if whole else [sign for sign in token.text if not sign.isspace()]
    return signs


def draw(source: random.Random) -> str:
    """A random text whose conditions nest."""
    text = "".join(source.choice(FRAGMENTS) for _ in range(source.randint(2, 24)))
    return text + "\n#endif" * 8 if source.random() < 0.05 else text


def program(text: str, number: int) -> Program | None:
    """The text as a part of a file for both compilers; None: the judge refuses it, or it is no program."""
    result = rewritten(text)
    if result.ambiguous:
        return None
    again = rewritten(result.text)
    if again.text != result.text or again.ambiguous or _all(text) != _all(result.text):
        raise AssertionError(f"not the same tokens: {text!r}")
    lines, expected, open_conditions, turned = [], {}, [], []
    for at, line in enumerate(result.text.split("\n")):
        name = f"kcu{number}_{at}"
        words = line.split()
        if line.lstrip().startswith("#"):
            directive = "".join(words)
            if directive in ("#if0", "#if1"):
                open_conditions.append(directive == "#if1")
                turned.append(False)
            elif directive == "#else" and open_conditions and not turned[-1]:
                open_conditions[-1], turned[-1] = not open_conditions[-1], True
            elif directive == "#endif" and open_conditions:
                open_conditions.pop()
                turned.pop()
            elif (defined := _defined(line, number, at)) and all(open_conditions):
                lines.append(defined[0])
                expected[name] = defined[1]
                lines.append(f"__device__ char {name}[] = KCU_TEXT({defined[2]});")
                continue
            else:
                continue
            lines.append(line)
        elif open_conditions and not all(open_conditions):
            lines.append(line)
        elif line.strip() and not {"(", ")"} & {*pieces(line)}:  # they would end the macro's call
            lines.append(f"__device__ char {name}[] = KCU_TEXT_({line});")
            expected[name] = pieces(line)
    lines += ["#endif"] * len(open_conditions)
    return Program(text, "\n".join(lines) + "\n", expected)


def _all(text: str) -> list[tuple[str, str]]:
    return [
        (token.kind, re.sub(r"\s+", " ", token.text)) for token in tokenize(text) if token.kind != "directive"
    ]


def _defined(line: str, number: int, at: int) -> tuple[str, list[str], str] | None:
    """A `#define` under a name of its own, its body's tokens, and the name; None: not one that can expand."""
    match = re.match(r"\s*#\s*define\s+([A-Za-z_]\w*)(\s.*)?$", line)
    if match is None or {"#", "(", ")"} & {*pieces(match[2] or "")}:
        return None
    name = f"KCU_M{number}_{at}"
    return f"#define {name}{match[2] or ''}", pieces(match[2] or ""), name


def by_gcc(text: str) -> dict[str, list[str]]:
    """Each string that g++ makes of a file, as tokens.

    Raises:
        ValueError: it does not preprocess.
    """
    options = ("-std=gnu++17", "-undef", "-E", "-P", "-x", "c++", "-w", "-")
    done = subprocess.run(
        [*toolchain.find().command, *options], input=text.encode(), capture_output=True, check=False
    )
    if done.returncode:
        raise ValueError(done.stderr.decode(errors="replace")[:2000])
    found = _GCC.findall(done.stdout.decode())
    return {name: pieces(re.sub(r"\\(.)", r"\1", body)) for name, body in found}


def by_nvrtc(text: str) -> dict[str, list[str]]:
    """Each string that NVRTC makes of a file, as tokens.

    Raises:
        ValueError: it does not compile.
    """
    made = nvrtc.compile_cubin(text)
    if made.cubin is None:
        raise ValueError(made.log[:2000])
    found = {}
    for name, values in _PTX.findall(made.ptx):
        codes = bytes(int(value) & 0xFF for value in values.split(",") if value.strip())
        found[name] = pieces(codes.rstrip(b"\0").decode())
    return found


def disagreement(programs: list[Program]) -> str | None:
    """What one of the compilers makes otherwise of these programs; None: nothing."""
    text = _HEAD + "".join(one.wrapped for one in programs)
    expected = {name: tokens for one in programs for name, tokens in one.expected.items()}
    for compiler in (by_gcc, by_nvrtc):
        try:
            found = compiler(text)
        except ValueError as error:
            if len(programs) > 1:
                return next(filter(None, (disagreement([one]) for one in programs)), None)
            return f"{compiler.__name__}: {error}\n{programs[0].text!r}\n{programs[0].wrapped}"
        for one in programs:
            for name, tokens in one.expected.items():
                if found.pop(name, None) != tokens and tokens:
                    return f"{compiler.__name__}: {name} is not {tokens}\n{one.text!r}\n{one.wrapped}"
        extra = [name for name in found if name not in expected]
        if extra:
            return f"{compiler.__name__}: {extra[0]} is there\n{text}"
    return None


def _cpu_s() -> float:
    """CPU time of this process and of the compilers that it started."""
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def search(seconds: float, seed: int) -> Report:
    """Try random texts for so many seconds of CPU time, or until compilers disagree."""
    source, report, end_s = random.Random(seed), Report(), _cpu_s() + seconds
    while _cpu_s() < end_s:
        batch: list[Program] = []
        while len(batch) < BATCH:
            report.tried += 1
            if (one := program(draw(source), len(batch))) is None:
                report.refused += 1
            elif one.expected:
                batch.append(one)
        report.strings += sum(len(one.expected) for one in batch)
        report.disagreement = disagreement(batch)
        if report.disagreement:
            break
    return report


def main() -> int:
    """Run; 1 if compilers disagree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1800, help="of CPU time")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    report = search(options.seconds, options.seed)
    print(f"{report.tried} texts, {report.refused} refused, {report.strings} strings compared")
    if report.disagreement:
        print(report.disagreement)
    return report.disagreement is not None


if __name__ == "__main__":
    sys.exit(main())
