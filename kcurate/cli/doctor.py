"""`kcurate doctor`."""

from __future__ import annotations

from kcurate.cli import ending, output
from kcurate.core.options import JsonOption


def doctor(json: JsonOption = False) -> None:
    """Show what works on this machine, and how to install what is missing.

    Example: kcurate doctor --json
    """
    from kcurate.lookup import doctor as checks

    findings = checks.examine()
    rows = [
        (finding.topic, "yes" if finding.ok else "no", finding.detail, finding.hint) for finding in findings
    ]
    if json:
        from kcurate.core import codec
        from kcurate.records import Item

        items = [
            Item("features", topic, available, finding.ok, finding.detail, None, finding.hint)
            for finding, (topic, available, *_) in zip(findings, rows, strict=True)
        ]
        ending.listed("doctor", items, {"findings": codec.to_data(list(findings))})
        return
    output.table("What this machine can do", ("feature", "available", "detail", "how to get it"), rows)
