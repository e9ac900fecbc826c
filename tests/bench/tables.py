# SPDX-License-Identifier: MIT
"""How figures become tables, and tables a page. Every part has a section of its own between two markers, and leaves its figures
there as well, in a comment that no reader sees: the table of bounds is made of the figures of all parts, whenever each was run."""
import json
import re
import statistics
import sys


def spread(values, digits=2):
    v = sorted(values)
    return f"{v[0]:.{digits}f}/{statistics.median(v):.{digits}f}/{v[-1]:.{digits}f}" if v else "-"


def ratios(above, below):
    """By pairs: each was measured beside the other."""
    return [a / b for a, b in zip(above, below)]


def median(values):
    return statistics.median(values)


def table(head, rows):
    """Rows are lists of cells; None is an empty one."""
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join(["---"] * len(head)) + " |"]
    for row in rows:
        if len(row) != len(head):
            raise ValueError(f"a row of {len(row)} cells below {len(head)} titles: {row}")
        lines.append("| " + " | ".join("" if c is None else str(c) for c in row) + " |")
    return "\n".join(lines)


def put(page, name, text):
    """Everything between <!-- NAME: begin --> and <!-- NAME: end --> of a page becomes the text."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    old = open(page).read()
    new, n = re.subn(f"{begin}.*{end}", lambda _: f"{begin}\n{text}\n{end}", old, flags=re.S)
    if not n:
        sys.exit(f"bench: {page} has no \"{begin}\" and \"{end}\"")
    open(page, "w").write(new)


def hide(name, figures):
    return f"<!-- figures of {name}: {json.dumps(figures, sort_keys=True)} -->"


def hidden(page):
    """The figures of all sections of a page."""
    found = {}
    for name, text in re.findall(r"<!-- figures of (\S+): (\{.*\}) -->", open(page).read()):
        found[name] = json.loads(text)
    return found
