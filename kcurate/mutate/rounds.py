"""Loops with fewer iterations, serialised threads and divergent branches, as parts that might be needless.

A loop runs one iteration, half or three quarters of them, or only its last. Where threads take turns (thread
t does its work in iteration t), every thread skips to its own iteration, so all work at once. Where threads
diverge, all take the same branch. Not covered: loops of the plan (`kcurate.mutate.plan_ablations`), removing
a loop altogether.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kcurate.cuda_source.parse.syntax_tree import Declared, Node, Tree, bare
from kcurate.mutate.guards import (
    ASSIGNS,
    SWITCH,
    Guard,
    Part,
    cast,
    names_in,
    one_line,
    replace_guard,
    run_once_guard,
)
from kcurate.mutate.numbers_in_scope import NEAREST, Scope
from kcurate.mutate.replacements import assigned


def fewer_rounds(tree: Tree, node: Node) -> Iterator[Part]:
    """A loop with one iteration or a share of them, or one iteration with all its `if` conditions true."""
    body, condition = (node.child_by_field_name(field) for field in ("body", "condition"))
    label = f"of {one_line(tree, node)}"
    if node.type == "do_statement":
        if condition is not None:
            guard = Guard(condition.start_byte, condition.end_byte, f"(!{SWITCH} && ", ")")
            yield Part(f"all but one round {label}", (guard,), 1)
        return
    if body is None:
        return
    yield Part(f"all but one round {label}", (run_once_guard(body),), 0)
    if node.type == "for_statement":
        yield from _shares_of_rounds(tree, node, label)
    conditions = [
        _forced_condition(inner.child_by_field_name("condition"), "true")
        for inner in tree.nodes("if_statement", within=body)
        if not _cannot_be_forced(tree, inner)
    ]
    if conditions:
        yield Part(f"all conditions in one round {label}", (*conditions, run_once_guard(body)), 2)


def _forced_condition(condition: Node, text: str) -> Guard:
    """A guard that replaces the condition of an `if` or a `switch`."""
    return replace_guard(bare(condition), text)


def _cannot_be_forced(tree: Tree, node: Node) -> bool:
    """Whether an `if` is `if constexpr` or declares a variable in its condition."""
    condition = node.child_by_field_name("condition")
    head = tree.source[node.start_byte : condition.start_byte]
    return b"constexpr" in head or bare(condition).type in ("condition_clause", "declaration")


def _shares_of_rounds(tree: Tree, loop: Node, label: str) -> Iterator[Part]:
    """A counting loop without half or a quarter of its iterations, or with only the last one."""
    condition, step, body = (loop.child_by_field_name(field) for field in ("condition", "update", "body"))
    counter = _loop_counter(tree, loop)
    start = counter.value if counter is not None else None
    if condition is not None and condition.type == "binary_expression":
        operator, end = (condition.child_by_field_name(field) for field in ("operator", "right"))
        bound = {b"<": end, b"<=": end, b">": start, b">=": start}.get(tree.text(operator))
        for share, divisor in (("half", 2), ("a quarter of", 4)):
            if bound is None:
                break
            text = f") - ({SWITCH} ? ({tree.text(bound).decode()}) / {divisor} : 0))"
            fewer = Guard(bound.start_byte, bound.end_byte, "((", text)
            yield Part(f"{share} the rounds {label}", (fewer,), 1)
    if counter is None or condition is None or step is None or body is None:
        return
    name, condition_text = counter.name.decode(), tree.text(condition).decode()
    current, later = (tree.unused_name(wish).decode() for wish in (b"this_round", b"rounds_follow"))
    skip = (
        f"if ({SWITCH}) {{ const auto {current} = {name}; {tree.text(step).decode()}; "
        f"const bool {later} = ({condition_text}); {name} = {current}; if ({later}) continue; }} "
    )
    last_round = Guard(body.start_byte, body.end_byte, f"{{ {skip}", " }")
    yield Part(f"all but the last round {label}", (last_round,), 1)


def _loop_counter(tree: Tree, loop: Node) -> Declared | None:
    """The only variable that a `for` declares, if it has an initial value; else None."""
    start = loop.child_by_field_name("initializer")
    declared = [*tree.declared_by(start)] if start is not None and start.type == "declaration" else []
    return declared[0] if len(declared) == 1 and declared[0].value is not None else None


def rounds_in_turn(scope: Scope, loop: Node) -> Iterator[Part]:
    """A loop in which a condition gives each thread its own iteration, reduced to that iteration.

    Values that one iteration passes to the next are lost then, so further candidates also replace one value
    assigned in the loop by an earlier one.
    """
    tree, body = scope.tree, loop.child_by_field_name("body")
    condition, step = (loop.child_by_field_name(field) for field in ("condition", "update"))
    counter = _loop_counter(tree, loop)
    if body is None or counter is None or step is None:
        return
    condition_text = tree.text(condition).decode() if condition is not None else "true"
    step_text = tree.text(step).decode()
    label = f"the order of the rounds of {one_line(tree, loop)}"
    for own_round in islice(_conditions_on(tree, counter.name, body), NEAREST):
        wait = f"while (({condition_text}) && !({tree.text(own_round).decode()})) {{ {step_text}; }}"
        once = run_once_guard(body, f"if ({SWITCH}) {wait} ")
        yield Part(label, (once,), 1)
        for node in tree.nodes(*ASSIGNS, within=body):
            for target, value in assigned(scope, node):
                for earlier, _ in scope.earlier(loop, target):
                    guards = (once, replace_guard(value, cast(target, earlier)))
                    yield Part(f"{label}, with {earlier.decode()} for {target.name.decode()}", guards, 1)


def _conditions_on(tree: Tree, counter: bytes, body: Node) -> Iterator[Node]:
    """The conditions inside a loop that read its counter and no variable declared in its body."""
    locals_ = {declared.name for declared in tree.declared(body)}
    for node in tree.nodes("if_statement", "conditional_expression", within=body):
        condition = bare(node.child_by_field_name("condition"))
        names = names_in(tree, condition)
        if counter in names and not names & locals_:
            yield condition


def uniform_branch(tree: Tree, node: Node) -> Iterator[Part]:
    """All threads take the same branch of an `if ... else` or `a ? b : c`, or the same case of a `switch`.

    Counts show neither divergence within a warp nor the latency of the condition.
    """
    condition = node.child_by_field_name("condition")
    label = f"other ways than one in {one_line(tree, node)}"
    if node.type in ("if_statement", "conditional_expression"):
        if node.child_by_field_name("alternative") is None or _cannot_be_forced(tree, node):
            return
        for way in ("true", "false"):
            yield Part(f"{label} ({way})", (_forced_condition(condition, way),), 3, visible_in_counts=False)
    elif node.type == "switch_statement":
        values = (case.child_by_field_name("value") for case in tree.nodes("case_statement", within=node))
        for value in islice((value for value in values if value is not None), 1):
            guard = _forced_condition(condition, f"({tree.text(value).decode()})")
            yield Part(label, (guard,), 2, visible_in_counts=False)
