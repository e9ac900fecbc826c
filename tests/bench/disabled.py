# SPDX-License-Identifier: MIT
"""An event that nobody wants: its time, and what the compiler made of it."""
import os
import re

import laps
from daemons import sh
from tables import median, spread, table

TITLE = "Disabled events"


def disassemble(stage):
    """The way of a disabled event: the instructions of disabled_event() up to its first return. None: not x86-64."""
    if os.uname().machine != "x86_64":
        return None
    out = sh("objdump", "-d", "--no-show-raw-insn", "--disassemble=disabled_event", stage.program("sides"))
    lines = re.findall(r"^ +([0-9a-f]+):\t(.*)$", out, re.M)
    for i, (_, text) in enumerate(lines):
        if text.startswith("ret"):
            return [f"{at}: {text.strip()}" for at, text in lines[:i + 1]]
    raise SystemExit(f"bench: there is no return in disabled_event():\n{out}")


def judge(way):
    """Loads from memory, branches, and calls on the way."""
    loads = branches = calls = 0
    for line in way:
        text = line.split(": ", 1)[1]
        name = text.split()[0]
        loads += "(" in text and not name.startswith(("lea", "nop"))
        branches += name.startswith("j")
        calls += name.startswith("call")
    return loads, branches, calls


def run(stage):
    figures, rows = {}, []
    clock = stage.options.clocks[0]
    with stage.tracer(clock) as tracer:
        loops = ["empty", "lttng-off", "tracer-off"]
        none = laps.run(stage, tracer, loops, wanted=False)
        laps.begin(stage, tracer, True, ("cost",))
        some = laps.run(stage, tracer, loops + ["lttng-sibling", "tracer-sibling"])
        laps.end(stage, tracer, some, "disabled", ("cost",))
    for r, loop, title in ((none, "off", "no session at all"), (some, "off", "a session wants another provider's"),
                           (some, "sibling", "a session wants another event of the provider")):
        cells = [title]
        for side in ("lttng", "tracer"):
            ns = r.cpu.get(f"{side}-{loop}")
            above = [x - e for x, e in zip(ns, r.cpu["empty"])] if ns else None
            cells.append(spread(above) if ns else "-")
            if ns:
                figures[f"{side} {title}"] = median(above)
        rows.append(cells)
    text = "Above an empty loop:\n\n" + table(["", "LTTng ns", "tracer ns"], rows)
    way = disassemble(stage)
    if way:
        figures["loads"], figures["branches"], figures["calls"] = judge(way)
        text += (f"\n\nThe whole way of a disabled event, as compiled into the program above (a function of its own; "
                 f"{figures['loads']} loads, {figures['branches']} branch, which is not taken):\n\n```\n" + "\n".join(way) + "\n```")
    return text, figures
