"""One HTML page that holds everything: tables, and pictures as data."""

import base64
import html
from collections.abc import Iterable, Sequence
from typing import Final

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; margin: 1em 0; }
td, th { padding: .25em .8em; border-bottom: 1px solid #ddd; text-align: right; }
td:first-child, th:first-child { text-align: left; }
img { max-width: 100%; }
.note { color: #555; }
"""


class Page:
    """A page that is put together from top to bottom."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts = [f"<h1>{html.escape(title)}</h1>"]

    def heading(self, text: str) -> None:
        """Add a heading."""
        self._parts.append(f"<h2>{html.escape(text)}</h2>")

    def text(self, text: str) -> None:
        """Add a paragraph."""
        self._parts.append(f'<p class="note">{html.escape(text)}</p>')

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table."""
        lines = [_row("th", header), *(_row("td", row) for row in rows)]
        self._parts.append(f"<table>{''.join(lines)}</table>")

    def picture(self, png: bytes, about: str) -> None:
        """Add a picture; *about* is for who cannot see it."""
        data = base64.b64encode(png).decode("ascii")
        said = html.escape(about, quote=True)
        self._parts.append(f'<img alt="{said}" src="data:image/png;base64,{data}">')

    def html(self) -> str:
        """Return the page."""
        head = f"<meta charset='utf-8'><title>{html.escape(self._title)}</title>"
        body = "\n".join(self._parts)
        head += f"<style>{_STYLE}</style>"
        opening = f"<!doctype html>\n<html lang='en'><head>{head}</head>\n<body>\n"
        return f"{opening}{body}\n</body></html>\n"


def _row(cell: str, values: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{cell}>{html.escape(value)}</{cell}>' for value in values)}</tr>"
