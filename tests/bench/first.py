# SPDX-License-Identifier: MIT
"""The first record of a thread, and of a process."""
from daemons import count_events
from tables import median, ratios, spread, table

TITLE = "First records"


def parse(out, into):
    for line in out.splitlines():
        whose, first, second = line.split()
        into[whose].append(int(first) / 1e3)
        into["next"].append(int(second) / 1e3)


def once(stage, tracer, side, late, into):
    """A program with a session that is there before it (or comes while it runs) and nothing but its records in it."""
    o = stage.options
    calls = 2 + 2 * o.first_threads
    create = (lambda: stage.lttng.create("first", True, events="bench:one")) if side == "lttng" else \
        (lambda: tracer.create("first", True, events="bench:one"))
    if not late:
        create()
    program = stage.talk(tracer, f"first-{side}", o.first_threads, *(["wait"] if late else []))
    if late:
        program.hear()
        create()
        program.say()
    parse(program.end(), into)
    if side == "lttng":
        stage.lttng.snapshot("first")
        n = count_events(f"{stage.work}/first")
        stage.lttng.destroy("first")
        stage.clear("first")
    else:
        v = tracer.properties("first")
        n = v["recorded"] + v["discarded"]
        tracer.remove("first")
    stage.agree(f"first, {side}: calls and records", calls, n)


def run(stage):
    rows, figures = [], {}
    results = {(side, late): {"process": [], "thread": [], "next": []} for side in stage.sides() for late in (False, True)}
    with stage.tracer() as tracer:
        for _ in range(stage.options.rounds):
            for (side, late), into in results.items():
                stage.patiently(lambda: once(stage, tracer, side, late, into))
    for title, whose, late in (("of a process, session there before it", "process", False),
                               ("of a process, session came while it ran", "process", True),
                               ("of a thread", "thread", False), ("the one after", "next", False)):
        l, t = (results[side, late][whose] if (side, late) in results else None for side in ("lttng", "tracer"))
        if l and whose != "next":
            figures[title] = median(t) / median(l)
        rows.append([title, spread(l, 1) if l else "-", spread(t, 1), f"{median(t) / median(l):.3f}" if l else "-"])
    return ("By the wall, the reading of CLOCK_MONOTONIC included. LTTng attaches at the start of a program (see there), tracer at its "
            "start if a session is there, else with the first record after one has come.\n\n" +
            table(["first record", "LTTng µs", "tracer µs", "median / median"], rows)), figures
