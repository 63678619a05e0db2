"""Compile flags: where they come from, which counts, and what a file without kernels says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcurate.cli import run as cli
from kcurate.cuda_source import extract_unit
from kcurate.errors import InputError
from kcurate.extract import units
from kcurate.extract.build_files import cmake_words, make_words
from kcurate.extract.flags import FlagFinder, Flags, find_commands
from kcurate.extract.stage import ExtractConfig, run
from tests.extract.test_extract_stage import extract, kernels, report

KERNEL = "__global__ void k(float *o) { o[0] = WIDTH; }\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def make(text: str, name: str = "main.cu", included: dict[str, str] | None = None) -> list[str]:
    words = make_words(text, name, (included or {}).get)
    return [word for word in words if word.startswith(("-D", "-I", "-std"))]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CFLAGS = -O3 -DN=4 \\\n  -DM\n", ["-DN=4", "-DM"]),
        ("SIZE ?= 16\nSIZE ?= 32\nCFLAGS := -DSIZE=$(SIZE)\nCFLAGS += -Iinc # -DNO\n",
         ["-DSIZE=16", "-Iinc"]),
        ("P = FP32\nifeq ($(P), FP32)\nF = -DA\nelse\nF = -DB\nendif\n", ["-DA"]),
        ("ifdef DEBUG\nF = -DA\nelse ifneq ($(DEBUG),1)\nF = -DB\nendif\n", ["-DB"]),
        ("ifeq ($(shell uname),Linux)\nF = -DA\nelse\nF = -DB\nendif\nG = -DC=$(shell date) -DD\n", ["-DD"]),
        ("all: main.cu\n\tnvcc -DHERE main.cu\nother:\n\tnvcc -DTHERE other.cu\n", ["-DHERE"]),
        ("include common.mk\nF = $(MORE)\n", ["-DMORE", "-DMORE"]),
        ("F = -DTEXT=\\\"a\\\"\n", ['-DTEXT="a"']),
    ],
)  # fmt: skip
def test_a_makefile_is_read_for_what_it_says_plainly(text: str, words: list[str]) -> None:
    assert make(text, included={"common.mk": "MORE = -DMORE\n"}) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("add_definitions(-DA -DB=2)", ["-DA", "-DB=2"]),
        ("target_compile_definitions(app PRIVATE A B=2) # C", ["-DA", "-DB=2"]),
        ("include_directories(${PROJECT_SOURCE_DIR}/inc own)", ["-I./inc", "-Isub/own"]),
        ("option(FAST \"speed\" ON)\nif(FAST)\nadd_definitions(-DA)\nelse()\nadd_definitions(-DB)\nendif()",
         ["-DA"]),
        ("if(UNSET_HERE)\nadd_definitions(-DA)\nelse()\nadd_definitions(-DB)\nendif()\nadd_definitions(-DC)",
         ["-DC"]),
        ("set(N 4)\nadd_compile_definitions(N=${N} M=${WHAT})", ["-DN=4"]),
        ('add_compile_definitions(A="${WHAT}" "B=1")', ["-DB=1"]),
        ("target_compile_options(app PRIVATE $<$<CONFIG:Debug>:-DA> -DB)", ["-DB"]),
        ('set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -O2")\nset(CMAKE_CUDA_STANDARD 14)',
         ["-O2", "-std=c++14"]),
    ],
)  # fmt: skip
def test_cmake_is_read_for_what_it_says_plainly(text: str, words: list[str]) -> None:
    assert cmake_words(text, "sub") == words


def test_the_command_line_counts_before_the_database_and_that_before_build_files(tmp_path: Path) -> None:
    tree = write(
        tmp_path / "tree",
        {
            "CMakeLists.txt": "add_definitions(-DA=cmake -DB=cmake -DC=cmake -DD=cmake)",
            "sub/Makefile": "F = -DA=make -DB=make -DC=make",
            "sub/a.cu": KERNEL,
            "sub/b.cu": KERNEL,
        },
    )
    entry = {
        "directory": str(tree / "build"),
        "file": "../sub/a.cu",
        "command": "nvcc -DA=db -DB=db -I../sub -c a.cu",
    }
    write(tree, {"build/compile_commands.json": json.dumps([entry])})
    finder = FlagFinder(tree, Flags((("A", "line"),)), find_commands(tree, None, print))
    assert finder.of("sub/a.cu").shown() == ("-DA=line", "-DB=db", "-Isub")
    assert finder.of("sub/b.cu").shown() == ("-DA=line", "-DB=make", "-DC=make", "-DD=cmake")


def test_a_macro_that_a_build_file_defines_in_two_ways_is_left_out(tmp_path: Path) -> None:
    tree = write(tmp_path, {"Makefile": "a:\n\tnvcc -DN=1 -DM a.o\nb:\n\tnvcc -DN=2 b.o\n"})
    assert FlagFinder(tree, Flags(), {}).of("main.cu") == Flags((("M", "1"),))


def test_a_makefile_macro_lets_the_kernel_compile_and_is_kept_in_the_record(tmp_path: Path) -> None:
    tree = write(
        tmp_path / "tree", {"app/main.cu": KERNEL, "app/Makefile": "CFLAGS = -DWIDTH=4 -std=c++14\n"}
    )
    summary = extract(tmp_path / "w", tree, compile=True)
    assert summary.items["kernels"] == {"compiled": 1}
    [kernel] = kernels(tmp_path / "w").values()
    assert kernel.flags == ("-DWIDTH=4", "-std=c++14")


def test_a_makefile_that_includes_what_a_function_names_costs_only_that_file(tmp_path: Path) -> None:
    makefile = "include $(wildcard ../*.mk)\nF = -DWIDTH=7\n"
    tree = write(tmp_path / "tree", {"Makefile": makefile, "main.cu": KERNEL})
    extract(tmp_path / "w", tree)
    [kernel] = kernels(tmp_path / "w").values()
    assert kernel.flags == ("-DWIDTH=7",)


def test_options_reach_the_kernel(tmp_path: Path) -> None:
    headers = {"far/w.h": "#define WIDTH MORE\n", "near/w.h": "#define WIDTH 1\n"}
    tree = write(tmp_path / "tree", {"main.cu": '#include "w.h"\n' + KERNEL, **headers})
    given = ["-w", str(tmp_path / "w"), "--no-compile", "-D", "MORE=7", "-I", str(tree / "far")]
    assert cli(["extract", str(tree), *given]) == 0
    code = next((tmp_path / "w").rglob("kernel.cu")).read_text()
    assert "#define WIDTH MORE" in code and "#define MORE 7" in code


def test_an_include_folder_nobody_names_is_found_by_the_path_of_the_include(tmp_path: Path) -> None:
    files = {
        "src/app/main.cu": "#include <lib/width.h>\n" + KERNEL,
        "src/include/lib/width.h": "#define WIDTH 3\n",
        "old/include/lib/width.h": "#define WIDTH 9\n",
    }
    extract(tmp_path / "w", write(tmp_path / "tree", files))
    assert "#define WIDTH 3" in next((tmp_path / "w").rglob("kernel.cu")).read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"define": ("4=x",)}, "not a macro"),
        ({"include_dirs": (Path("nowhere"),)}, "no such folder"),
        ({"include_dirs": (Path("/"),)}, "outside of the source tree"),
        ({"compile_commands": Path("nothing.json")}, "not a compilation database"),
    ],
)
def test_a_bad_option_gets_one_clear_line(tmp_path: Path, options: dict[str, object], says: str) -> None:
    tree = write(tmp_path / "tree", {"main.cu": KERNEL})
    with pytest.raises(InputError, match=says) as caught:
        extract(tmp_path / "w", tree, **options)
    assert caught.value.where and caught.value.hint and "\n" not in str(caught.value)


def test_a_broken_database_found_by_itself_only_gives_a_note(tmp_path: Path) -> None:
    tree = write(tmp_path / "tree", {"main.cu": KERNEL, "compile_commands.json": '{"a": 1}'})
    notes: list[str] = []
    run(ExtractConfig((tree,), tmp_path / "w", compile=False), note=notes.append)
    assert any("not a compilation database" in note for note in notes) and len(kernels(tmp_path / "w")) == 1


def test_a_file_with_global_and_no_kernel_says_why(tmp_path: Path) -> None:
    files = {
        "hidden.cu": "#include <x.h>\n#if defined(USE_GPU)\n" + KERNEL + "#endif\n",
        "unknown.cu": "#if INT_MAX > 3\n" + KERNEL + "#endif\n",
        "comment.cu": "// __global__ void k();\n",
        "declared.cu": "__global__ void k(float *o);\n",
        "macro.cu": "#define MAKE(n) __global__ void n(int *) {\n#define END }\nMAKE(one, 1) ; END\n",
        "good.cu": KERNEL,
    }
    notes: list[str] = []
    summary = run(
        ExtractConfig((write(tmp_path / "tree", files),), tmp_path / "w", compile=False), note=notes.append
    )
    lines = {str(line["path"]): line for line in report(tmp_path / "w", "files")}
    assert {path: line["outcome"] for path, line in lines.items()} == {
        "hidden.cu": "behind_condition",
        "unknown.cu": "behind_condition",
        "comment.cu": "no_kernel",
        "declared.cu": "no_kernel",
        "macro.cu": "unread_kernel",
        "good.cu": "extracted",
    }
    assert all(line.get("why") for path, line in lines.items() if path != "good.cu")
    assert summary.items["files"]["behind_condition"] == 2
    [hidden] = [note for note in notes if note.startswith("hidden.cu")]
    assert "#if defined(USE_GPU) (line 2)" in hidden and "-D USE_GPU" in hidden
    assert "INT_MAX comes from a header" in str(lines["unknown.cu"]["why"])


def test_a_tree_with_hidden_kernels_only_names_what_to_define(tmp_path: Path) -> None:
    tree = write(tmp_path / "tree", {"a.cu": "#ifdef USE_GPU\n" + KERNEL + "#endif\n"})
    with pytest.raises(InputError, match="-D USE_GPU"):
        extract(tmp_path / "w", tree)
    assert extract(tmp_path / "w", tree, define=("USE_GPU",)).items["kernels"] == {"not_compiled": 1}


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_exception_in_one_file_is_the_outcome_of_that_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    real = extract_unit

    def breaking(root: str, *rest: object, **options: object) -> object:
        if root == "bad.cu":
            raise RecursionError("too deep")
        return real(root, *rest, **options)  # type: ignore[arg-type]

    if jobs == 1:  # workers of their own would not see the patch
        monkeypatch.setattr(units, "extract_unit", breaking)
    bad = KERNEL if jobs == 1 else "__global__ void k(float *o) { " + "(" * 200_000 + "\n"
    tree = write(tmp_path / "tree", {"bad.cu": bad, "good.cu": KERNEL})
    summary = extract(tmp_path / "w", tree, jobs=jobs)
    assert [kernel.span.path for kernel in kernels(tmp_path / "w").values()] >= ["good.cu"]
    assert sum(summary.items["files"].values()) == 2
    if jobs == 1:
        assert summary.items["files"] == {"extracted": 1, "parser_failed": 1}
        [line] = [line for line in report(tmp_path / "w", "files") if line["path"] == "bad.cu"]
        assert "RecursionError: too deep" in str(line["why"])


def test_a_header_finds_its_own_includes_whichever_folder_the_unit_is_in(tmp_path: Path) -> None:
    files = {
        "base/CMakeLists.txt": "include_directories(inc)",
        "base/inc/lib/util.h": "#include <lib/config.h>\n",
        "base/inc/lib/config.h": "#define WIDTH 4\n",
        "app/main.cu": "#include <lib/util.h>\n" + KERNEL,
        "other/inc/lib/config.h.in": "",
    }
    extract(tmp_path / "w", write(tmp_path / "tree", files), compile=True)
    [kernel] = kernels(tmp_path / "w").values()
    assert kernel.compiled is not None and kernel.compiled.ok, kernel.compiled
