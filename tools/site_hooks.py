"""What mkdocs (`make site`) has to know of pages that are read in the repository too.

A link that leaves docs/, or leads to rows in docs/data, is followed at `repo_url`; without one, and there is
none yet, its text and the path stay.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

LINK = re.compile(r"(!?)\[([^]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """The page's text, with links that stay within the site."""
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def kept(match: re.Match[str]) -> str:
        image, text, target, anchor = match.groups()
        path = posixpath.normpath(posixpath.join(folder, target))
        outside = not path.startswith("docs/") or path.startswith("docs/data/")
        if re.match(r"[a-z]+:", target) or not outside:
            return match.group()
        if config.repo_url:
            return f"{image}[{text}]({config.repo_url.rstrip('/')}/blob/HEAD/{path}{anchor or ''})"
        return f"{text} (`{path}`)"

    # A fenced block shows what it shows.
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(kept, part) for part in parts)
