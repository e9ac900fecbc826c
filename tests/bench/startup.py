# SPDX-License-Identifier: MIT
"""Programs that start and end at once, and how many threads they have."""
import os

from daemons import count_events, sh
from tables import median, ratios, spread, table

TITLE = "Start-up"
TITLES = {"start-none": "uninstrumented", "start-empty": "loads an empty library", "start-tracer": "instrumented with tracer",
          "start-lttng": "instrumented with LTTng-UST"}


def spawn(stage, tracer, programs):
    o = stage.options
    result = {p: [] for p in programs}
    out = stage.run(tracer, "spawn", o.slices, o.spawns, *map(stage.program, programs))
    for line in out.splitlines():
        _, program, us = line.split()
        result[os.path.basename(program)].append(float(us))
    return result


def threads(stage, tracer, program):
    p = stage.talk(tracer, program, "wait")
    p.hear()
    n = len(os.listdir(f"/proc/{p.pid}/task"))
    descriptors = len(os.listdir(f"/proc/{p.pid}/fd")) - 3
    p.end()
    return n, descriptors


def wanted_of(stage, tracer, programs):
    """The times and counts of programs that a session wants, all of which it heard of."""
    tracer.create("start", True, events="bench:one")
    if stage.lttng:
        stage.lttng.create("start", True, events="bench:one")
    times = spawn(stage, tracer, programs)
    counts = {p: threads(stage, tracer, p) for p in programs}
    runs = (stage.options.slices + 1) * stage.options.spawns + 1
    v = tracer.properties("start")
    stage.agree("start-up: programs of tracer and their records", runs, v["recorded"] + v["discarded"])
    tracer.remove("start")
    if stage.lttng:
        stage.lttng.snapshot("start")
        stage.agree("start-up: programs of LTTng and their records", runs, count_events(f"{stage.work}/start"))
        stage.lttng.destroy("start")
        stage.clear("start")
    return times, counts


def run(stage):
    programs = ["start-none", "start-empty"] + [f"start-{side}" for side in reversed(stage.sides())]
    figures, rows = {}, []
    with stage.tracer() as tracer:
        unwanted = spawn(stage, tracer, programs), {p: threads(stage, tracer, p) for p in programs}
        wanted = stage.patiently(lambda: wanted_of(stage, tracer, programs))
    for k, (state, (times, counts)) in enumerate((("no session", unwanted), ("a session wants it", wanted))):
        for p in programs:
            beside = ratios(times[p], times["start-empty"])
            n, descriptors = counts[p]
            rows.append([TITLES[p], state, spread(times[p], 0), f"**{spread(beside, 3)}**", n, descriptors])
            figures[f"{p} {k}"] = median(beside)
            figures[f"{p} {k} threads"] = n
    return (f"From posix_spawn to the end, both daemons running, {stage.options.spawns} runs of each in a slice. The program makes one "
            "call.\n\n" +
            table(["program", "", "microseconds", "beside the empty library", "threads", "descriptors"], rows)), figures
