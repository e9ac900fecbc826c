# SPDX-License-Identifier: MIT
"""What tracer is to reach, and whether it did, by the figures of the other parts."""
from tables import table

TITLE = "Bounds"


def at_most(figure, bound):
    return figure <= bound


def whole_at_most(figure, bound):
    return int(figure) <= bound


def at_least(figure, bound):
    return figure >= bound


# (what, part, path to the figure in it, bound, test, digits)
BOUNDS = [
    *[(f"record beside LTTng's, {title}, vpid and vtid on both sides, clock `{clock}`", "record", [f"{clock} {kind}"], bound, at_most, 3)
      for clock in ("counter", "monotonic") for kind, title, bound in (("one", "one u64", 0.12),
                                                                       ("mixed", "u64 + u32 + 16-byte string", 0.16))],
    *[(f"record beside the floor, {title}, clock `{clock}`", "floor", [f"{clock} {kind}"], 1.2, at_most, 3)
      for clock in ("counter", "monotonic") for kind, title in (("one", "one u64"), ("mixed", "u64 + u32 + 16-byte string"),
                                                                ("text", "200-byte string"))],
    *[(f"2 threads, as many calls a second of the wall as 1, times, clock `{clock}`", "scaling", [f"{clock} wall"], 1.9, at_least, 2)
      for clock in ("counter", "monotonic")],
    ("start-up of a program that nobody wants, beside one with an empty library", "startup", ["start-tracer 0"], 1.02, at_most, 3),
    ("threads of that program", "startup", ["start-tracer 0 threads"], 1, at_most, 0),
    ("threads of a program that is wanted", "startup", ["start-tracer 1 threads"], 1, at_most, 0),
    ("whole bytes of a record of one u64 with vpid and vtid (the rest is headers of packets)", "memory", ["bytes one"], 24,
     whole_at_most, 2),
    *[(f"payload of {n} bytes, beside memcpy", "payload", [n], 1.2, at_most, 3) for n in ("256", "1024", "4096", "16384", "65000")],
    ("snapshot of 64 MiB: rings held, beside LTTng's whole time", "snapshot", ["64", "held"], 0.25, at_most, 3),
    ("snapshot of 64 MiB: complete on the disk, beside LTTng's in the page cache", "snapshot", ["64", "whole"], 1, at_most, 2),
    ("snapshot of 64 MiB: complete on the disk, beside LTTng's synced", "snapshot", ["64", "durable"], 1, at_most, 2),
    *[(f"daemon's CPU per record beside lttng-consumerd's, io = \"{io}\"", "consumer", [io], 0.5, at_most, 2)
      for io in ("auto", "write", "mmap", "splice", "direct")],
    ("programs heard of 1,000 that run when a session comes", "attach", ["tracer 1000", "heard"], 1000, at_least, 0),
    ("programs heard of 1,000 that are started at once", "attach", ["tracer 1000", "first"], 1000, at_least, 0),
    ("loads on the way of a disabled event", "disabled", ["loads"], 2, at_most, 0),
    ("branches on the way of a disabled event", "disabled", ["branches"], 1, at_most, 0),
    ("calls on the way of a disabled event", "disabled", ["calls"], 0, at_most, 0),
]


def find(figures, part, path):
    value = figures.get(part)
    for name in path:
        value = value.get(name) if value else None
    return value


def text(figures):
    """figures: of all parts, by name."""
    rows = []
    for what, part, path, bound, test, digits in BOUNDS:
        value = find(figures, part, path)
        if value is None:
            rows.append([what, f"{'≥' if test is at_least else '≤'} {bound}", "not measured", None])
        else:
            rows.append([what, f"{'≥' if test is at_least else '≤'} {bound}", f"{value:.{digits}f}",
                         "reached" if test(value, bound) else "**not reached**"])
    return "Medians.\n\n" + table(["bound", "", "figure", ""], rows)
