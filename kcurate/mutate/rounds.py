"""Loops with fewer rounds, and threads that all take one way, as parts of a side that might be needless.

A loop runs once, half or three quarters of its rounds, or its last round alone. Where each thread waits for
its turn, all threads find theirs first and take it at once; where each takes its own branch, all take one.
Not covered: loops of the plan (`kcurate.mutate.plan_ablations`), loops that do not run at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from kcurate.cuda_source.parse.syntax_tree import Declared, Node, Tree, bare
from kcurate.mutate.guards import ASSIGNS, SWITCH, Guard, Part, body_once, cast, instead, shown
from kcurate.mutate.numbers_in_scope import NEAREST, Scope
from kcurate.mutate.replacements import assigned


def of_loop(tree: Tree, node: Node) -> Iterator[Part]:
    """A loop that runs once, or for a part of its rounds, or once with all its conditions true."""
    body, condition = (node.child_by_field_name(field) for field in ("body", "condition"))
    what = f"of {shown(tree, node)}"
    if node.type == "do_statement":
        if condition is not None:
            guard = Guard(condition.start_byte, condition.end_byte, f"(!{SWITCH} && ", ")")
            yield Part(f"all but one round {what}", (guard,), 1)
        return
    if body is None:
        return
    yield Part(f"all but one round {what}", (body_once(body),), 0)
    if node.type == "for_statement":
        yield from _shares(tree, node, what)
    conditions = [
        _forced(inner.child_by_field_name("condition"), "true")
        for inner in tree.nodes("if_statement", within=body)
        if not _constant(tree, inner)
    ]
    if conditions:
        yield Part(f"all conditions in one round {what}", (*conditions, body_once(body)), 2)


def _forced(condition: Node, text: str) -> Guard:
    """Another condition in the place of an `if`'s or a `switch`'s."""
    return instead(bare(condition), text)


def _constant(tree: Tree, node: Node) -> bool:
    """Whether an `if` is one of compilers, or declares something in its condition."""
    condition = node.child_by_field_name("condition")
    head = tree.source[node.start_byte : condition.start_byte]
    return b"constexpr" in head or bare(condition).type in ("condition_clause", "declaration")


def _shares(tree: Tree, loop: Node, what: str) -> Iterator[Part]:
    """Half and three quarters of the rounds of a loop that counts, and the last round alone."""
    condition, step, body = (loop.child_by_field_name(field) for field in ("condition", "update", "body"))
    counter = _counter(tree, loop)
    first = counter.value if counter is not None else None
    if condition is not None and condition.type == "binary_expression":
        sign, end = (condition.child_by_field_name(field) for field in ("operator", "right"))
        bound = {b"<": end, b"<=": end, b">": first, b">=": first}.get(tree.text(sign))
        for share, rest in (("half", 2), ("a quarter of", 4)):
            if bound is None:
                break
            text = f") - ({SWITCH} ? ({tree.text(bound).decode()}) / {rest} : 0))"
            fewer = Guard(bound.start_byte, bound.end_byte, "((", text)
            yield Part(f"{share} the rounds {what}", (fewer,), 1)
    if counter is None or condition is None or step is None or body is None:
        return
    name, more = counter.name.decode(), tree.text(condition).decode()
    current, later = (tree.unused_name(wish).decode() for wish in (b"this_round", b"rounds_follow"))
    skip = (
        f"if ({SWITCH}) {{ const auto {current} = {name}; {tree.text(step).decode()}; "
        f"const bool {later} = ({more}); {name} = {current}; if ({later}) continue; }} "
    )
    last = Guard(body.start_byte, body.end_byte, f"{{ {skip}", " }")
    yield Part(f"all but the last round {what}", (last,), 1)


def _counter(tree: Tree, loop: Node) -> Declared | None:
    """The variable that a `for` declares, with its first value, if it is one."""
    start = loop.child_by_field_name("initializer")
    declared = [*tree.declared_by(start)] if start is not None and start.type == "declaration" else []
    return declared[0] if len(declared) == 1 and declared[0].value is not None else None


def turns(scope: Scope, loop: Node) -> Iterator[Part]:
    """A loop in which each thread waits for its own round, which a condition tells, and that round alone.

    What the rounds hand on may go with it: an earlier value for each variable that a round declares.
    """
    tree, body = scope.tree, loop.child_by_field_name("body")
    condition, step = (loop.child_by_field_name(field) for field in ("condition", "update"))
    counter = _counter(tree, loop)
    if body is None or counter is None or step is None:
        return
    more = tree.text(condition).decode() if condition is not None else "true"
    what = f"the order of the rounds of {shown(tree, loop)}"
    for turn in islice(_conditions_on(tree, counter.name, body), NEAREST):
        wait = f"while (({more}) && !({tree.text(turn).decode()})) {{ {tree.text(step).decode()}; }}"
        once = body_once(body, f"if ({SWITCH}) {wait} ")
        yield Part(what, (once,), 1)
        for node in tree.nodes(*ASSIGNS, within=body):
            for target, value in assigned(scope, node):
                for earlier, _ in scope.earlier(loop, target):
                    guards = (once, instead(value, cast(target, earlier)))
                    yield Part(f"{what}, with {earlier.decode()} for {target.name.decode()}", guards, 1)


def _conditions_on(tree: Tree, counter: bytes, body: Node) -> Iterator[Node]:
    """The conditions inside a loop that read its counter, and no variable of the body's own."""
    locals_ = {declared.name for declared in tree.declared(body)}
    for node in tree.nodes("if_statement", "conditional_expression", within=body):
        condition = bare(node.child_by_field_name("condition"))
        names = {tree.text(use) for use in tree.nodes("identifier", within=condition)}
        if counter in names and not names & locals_:
            yield condition


def one_way(tree: Tree, node: Node) -> Iterator[Part]:
    """All threads take the same branch of an `if` with two or of `a ? b : c`, or the same case of a `switch`.

    Counts show neither divergence within a warp nor the wait for the condition.
    """
    condition = node.child_by_field_name("condition")
    what = f"other ways than one in {shown(tree, node)}"
    if node.type in ("if_statement", "conditional_expression"):
        if node.child_by_field_name("alternative") is None or _constant(tree, node):
            return
        for way in ("true", "false"):
            yield Part(f"{what} ({way})", (_forced(condition, way),), 3, visible_in_counts=False)
    elif node.type == "switch_statement":
        values = (case.child_by_field_name("value") for case in tree.nodes("case_statement", within=node))
        for value in islice((each for each in values if each is not None), 1):
            guard = _forced(condition, f"({tree.text(value).decode()})")
            yield Part(what, (guard,), 2, visible_in_counts=False)
