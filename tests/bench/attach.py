# SPDX-License-Identifier: MIT
"""Many programs and many threads: how long it takes until all of them are heard."""
import re

from daemons import count_events, sh
from tables import median, spread, table
import time

TITLE = "Many programs, many threads"
PAUSE_US = 50000
FEW = 8


def heard(path):
    """By member: which of its calls the trace has, sorted."""
    out = sh("babeltrace2", path)
    calls = {}
    for value in re.findall(r"\bvalue = (\d+)", out):
        calls.setdefault(int(value) >> 16, []).append(int(value) & 0xFFFF)
    return {member: sorted(n) for member, n in calls.items()}


def judge(stage, what, out, calls, n, n_calls):
    """ms until each member was heard: from its first call that is in the trace on all have to be there, and none twice. One that
    was not heard at all is a result, but where there are so few that nothing explains it."""
    late = []
    missed = 0
    for line in out.splitlines():
        word = line.split()
        if word[0] != "member":
            continue
        index, returned = int(word[1]), [int(x) / 1e6 for x in word[2:]]
        mine = calls.get(index, [])
        if mine != list(range(n_calls - len(mine), n_calls)):
            stage.faults.append(f"{what}: of member {index} the trace has calls {mine} of {n_calls}")
        elif mine:
            late.append(returned[mine[0]])
            missed += mine[0]
        else:
            missed += n_calls
    if n <= FEW:
        stage.agree(f"{what}: programs, and those of which there are records", n, len(late))
    return late, missed


def crowd(stage, tracer, side, n, late):
    """N programs that record while a session comes (late), or that are started all at once with a session there."""
    o = stage.options
    n_calls, pause = (o.attach_calls, PAUSE_US) if late else (1, 0)
    what = f"{n} programs of {side}, {'session later' if late else 'session first'}"
    session = "crowd"
    def create():
        if side == "lttng":
            stage.lttng.create(session, True, "1M", 4, events="bench:one")
        else:
            tracer.create(session, True, "10M", "bench:one")
    ms = 0
    if not late:
        create()
    program = stage.talk(tracer, f"crowd-{side}", n, n_calls, pause, *(["wait"] if late else []))
    if late:
        program.hear()
        ms = time.monotonic()
        create()
        ms = (time.monotonic() - ms) * 1e3
        program.say()
    out = program.end()
    spent = int(re.search(r"^spent (\d+)", out, re.M).group(1)) / 1e6
    if side == "lttng":
        stage.lttng.snapshot(session)
        path = f"{stage.work}/{session}"
    else:
        path = tracer.snapshot(session)
    calls = heard(path)
    times, missed = judge(stage, what, out, calls, n, n_calls)
    if side == "tracer":
        v = tracer.properties(session)
        stage.agree(f"{what}: tracer's records and those in the trace", v["recorded"], sum(map(len, calls.values())))
        tracer.remove(session)
    else:
        stage.lttng.destroy(session)
    sh("rm", "-rf", path)
    return ms, times, missed, spent


def attach(stage, tracer, figures):
    rows = []
    for n in stage.options.crowds:
        for side in stage.sides():
            ms, times, missed, _ = stage.patiently(lambda: crowd(stage, tracer, side, n, True))
            _, first, _, spent = stage.patiently(lambda: crowd(stage, tracer, side, n, False))
            rows.append([n, {"lttng": "LTTng", "tracer": "tracer"}[side], f"{ms:.1f}", spread(times, 2),
                         f"{ms + max(times):.1f}" if len(times) == n else "never", len(times), missed, f"{spent:.0f}",
                         f"{spent / n:.2f}", len(first)])
            figures[f"{side} {n}"] = dict(heard=len(times), first=len(first), ms=ms + max(times, default=0), each=spent / n)
    return ("Programs that run already, all of which record at once when the session has been made (*commands*: create it and start it, by "
            f"the command line); then one call every {PAUSE_US // 1000} ms, {stage.options.attach_calls} in all. *Heard*: from the moment "
            "they go until the return of a program's first call that is in the trace, over the programs, and of how many there is any; "
            "from that call on all are there. *All* is the commands and the last of them; *missed* are calls before, of all programs. "
            "The last columns: as many programs started at once, a session being there, each makes one call and ends; and how many of "
            "those calls are in the trace. Both libraries wait for their daemon so long at most (LTTng's 3 s at the start, tracer's "
            "200 ms for an exchange).\n\n" +
            table(["programs", "", "commands ms", "heard ms", "all ms", "heard of", "missed", "started at once: ms", "ms each",
                   "heard of"], rows))


def threads(stage, tracer, figures):
    rows = []
    n, calls = stage.options.threads, stage.options.thread_calls
    for side in ("none", *stage.sides()):
        if side == "lttng":
            stage.lttng.create("threads", True, "4M", 4, events="bench:one")
        elif side == "tracer":
            tracer.create("threads", True, "64M", "bench:one")
        out = stage.greet(tracer, f"threads-{side}", n, calls, side=side).end()
        stage.ungreet(tracer, side)
        word = out.split()
        made, spent, cpu, resident = (int(word[i]) for i in (1, 3, 5, 7))
        first = sorted(int(x) / 1e3 for x in out.splitlines()[1].split()[1:])
        records = None
        if side == "tracer":
            path = tracer.snapshot("threads")
            v = tracer.properties("threads")
            records = count_events(path)
            stage.agree(f"{n} threads of tracer: calls, recorded, in the trace", made, v["recorded"], records)
            tracer.remove("threads")
        elif side == "lttng":
            stage.lttng.snapshot("threads")
            records, path = count_events(f"{stage.work}/threads"), f"{stage.work}/threads"
            stage.agree(f"{n} threads of LTTng: calls, in the trace", made, records)
            stage.lttng.destroy("threads")
        if side != "none":
            sh("rm", "-rf", path)
            figures[f"{side} threads"] = median(first)
        rows.append([{"none": "no tracer", "lttng": "LTTng", "tracer": "tracer"}[side], made, f"{spent / 1e6:.0f}", f"{cpu / 1e6:.0f}",
                     spread(first, 1), f"{first[len(first) * 99 // 100]:.1f}", f"{resident / 2**20:.0f}"])
    return (f"\n{n} threads of one program, made first, that all go at once, {calls} calls each; all of them are in the trace.\n\n" +
            table(["", "calls", "ms", "CPU ms", "first call µs", "first call of 99 % µs", "resident MiB"], rows))


def run(stage):
    figures = {}
    with stage.tracer() as tracer:
        return attach(stage, tracer, figures) + "\n" + threads(stage, tracer, figures), figures
