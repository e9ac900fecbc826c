# SPDX-License-Identifier: MIT
"""Snapshots of rings of several sizes: how long they take, how long the rings are held, and how long a writer waits for it."""
import os
import re
import shutil
import time

import laps
from daemons import count_events, stream_bytes
from tables import median, ratios, spread, table

TITLE = "Snapshots"


def sync(directory):
    """Every file and directory below it is on the disk when this returns."""
    for root, _, files in os.walk(directory):
        for name in [root, *(os.path.join(root, f) for f in files)]:
            fd = os.open(name, os.O_RDONLY)
            os.fsync(fd)
            os.close(fd)


def held_ms(path):
    """How long writers were held off at most, as the trace itself says."""
    held = [int(n) for root, _, files in os.walk(path) if "metadata" in files for n in
            re.findall(rb"\bhold_ns\s*=\s*\"?(\d+)", open(os.path.join(root, "metadata"), "rb").read())]
    return max(held) / 1e6


def timed(f):
    t = time.monotonic()
    value = f()
    return (time.monotonic() - t) * 1e3, value


class Times:
    def __init__(self, *names):
        for n in names:
            setattr(self, n, [])


def one_size(stage, tracer, mib, figures):
    cpus, o = os.cpu_count(), stage.options
    per_cpu = 1 << (mib // cpus).bit_length() - 1
    mib = per_cpu * cpus
    times = {side: Times("whole", "durable", "held", "stored", "calls") for side in stage.sides()}
    out = stage.lttng.create("snap", True, f"{per_cpu * 1024 // 4}K", 4, events="bench:one") if stage.lttng else None
    # rings of the same size: tracer counts its side rings into `memory`
    tracer.create("snap", True, f"{per_cpu * cpus * 5 // 4 + 1}M", "bench:one")
    made = 0
    for _ in range(o.snapshots):
        # LTTng's rings are not full again by themselves after a snapshot
        r = laps.run(stage, tracer, [f"lttng-one@{cpus}", f"tracer-one@{cpus}"], 1, (per_cpu << 20) // 20 * 5 // 8)
        made += r.calls[f"tracer-one@{cpus}"]
        if stage.lttng:
            t = times["lttng"]
            ms, _ = timed(lambda: stage.lttng.snapshot("snap"))
            more, _ = timed(lambda: sync(out))
            t.whole.append(ms)
            t.durable.append(ms + more)
            t.stored.append(stream_bytes(out) / 2**20)
            stage.clear("snap")
        t = times["tracer"]
        ms, path = timed(lambda: tracer.snapshot("snap"))
        t.whole.append(ms)
        t.held.append(held_ms(path))
        t.stored.append(stream_bytes(path) / 2**20)
        v = tracer.properties("snap")
        stage.agree(f"snapshot of {mib} MiB: tracer's calls, recorded and lost", made, v["recorded"] + v["discarded"])
        if o.verify or mib <= 16:
            # what is in whole parts of the rings is in the snapshot: nothing was recorded meanwhile
            stage.agree(f"snapshot of {mib} MiB: tracer's recorded and not overwritten, and counted by babeltrace2",
                        v["recorded"] - v["overwritten"], count_events(path))
        shutil.rmtree(path)
    if stage.lttng:
        stage.lttng.destroy("snap")
        stage.clear("snap")
    tracer.remove("snap")
    t, l = times["tracer"], times.get("lttng")
    figures[str(mib)] = dict(held_ms=median(t.held), ms=median(t.whole))
    if l:
        figures[str(mib)].update(held=median(ratios(t.held, l.whole)), whole=median(ratios(t.whole, l.whole)),
                                 durable=median(ratios(t.whole, l.durable)))
    return [mib, spread(l.whole, 1) if l else "-", spread(l.durable, 1) if l else "-", spread(t.whole, 1), spread(t.held, 2),
            f"**{spread(ratios(t.whole, l.whole))}**" if l else "-", f"**{spread(ratios(t.whole, l.durable))}**" if l else "-",
            f"**{spread(ratios(t.held, l.whole), 3)}**" if l else "-", spread(l.stored, 1) if l else "-", spread(t.stored, 1)]


def delays(stage, tracer, mib):
    """A writer at full speed on one CPU, watched in windows of the same length, with a snapshot in every other one."""
    cpus, o = os.cpu_count(), stage.options
    per_cpu = 1 << (mib // cpus).bit_length() - 1
    rows, window = [], 0.0
    for side in stage.sides():
        if side == "lttng":
            out = stage.lttng.create("delay", True, f"{per_cpu * 1024 // 4}K", 4, events="bench:one")
        else:
            tracer.create("delay", True, f"{per_cpu * cpus * 5 // 4 + 1}M", "bench:one")
        writer = stage.greet(tracer, f"writer-{side}", cpus - 1, side=side)
        quiet, busy, lengths = [], [], []
        def look(into):
            writer.say()
            _, calls, longest, kept = writer.hear()
            if into is not None:
                into.append((int(longest) / 1e6, int(kept) / 1e6, int(calls)))
        for n in range(o.snapshots + 1):
            # a lap, so that the rings are full, and the same again as long as a snapshot takes
            time.sleep(o.lap_seconds * mib / 16)
            look(None)
            time.sleep(window or 0.1)
            look(quiet if n else None)
            look(None)
            if side == "lttng":
                ms, _ = timed(lambda: stage.lttng.snapshot("delay"))
                path = out
            else:
                ms, path = timed(lambda: tracer.snapshot("delay"))
            look(busy if n else None)
            window = ms / 1e3
            if n:
                lengths.append(ms)
            shutil.rmtree(path)
        calls = int(writer.end().split()[-1])
        stage.ungreet(tracer, side)
        lost = None
        if side == "tracer":
            v = tracer.properties("delay")
            stage.agree(f"delays at {mib} MiB: tracer's calls, recorded and lost", calls, v["recorded"] + v["discarded"])
            lost = f"{v['discarded'] / (o.snapshots + 1):.0f}"
            tracer.remove("delay")
        else:
            stage.lttng.destroy("delay")
            stage.clear("delay")
        for title, seen in (("without", quiet), ("with a snapshot", busy)):
            rows.append([per_cpu * cpus, {"lttng": "LTTng", "tracer": "tracer"}[side], title,
                         spread([1e3 * x[0] for x in seen], 0), spread([1e3 * x[1] for x in seen], 0),
                         lost if title != "without" else None, spread(lengths, 1) if title != "without" else None])
    return rows


def run(stage):
    figures, rows, late = {}, [], []
    with stage.tracer() as tracer:
        for mib in stage.options.snapshot_sizes:
            rows.append(one_size(stage, tracer, mib, figures))
        for mib in stage.options.snapshot_sizes:
            late += delays(stage, tracer, mib)
    return ("Rings full, nobody writes; the whole command, from call to return. tracer has it on the disk (fsync) and renamed into "
            "place then; LTTng has handed it to the page cache, so *synced* is with an fsync of all that it wrote. *Held*: how long "
            "a writer that came to the oldest part of a ring was turned away at most.\n\n" +
            table(["MiB", "LTTng ms", "LTTng synced ms", "tracer ms", "tracer, held ms", "tracer / LTTng", "tracer / LTTng synced",
                   "held / LTTng", "LTTng MiB stored", "tracer MiB stored"], rows) +
            "\n\nA writer that records as fast as it can on one CPU and looks at the clock behind every call, in windows as long as a "
            "snapshot takes: the longest time from one look to the next, and the longest of those in which the kernel did not give its "
            "CPU to somebody else. *Turned away* are the records that were counted as lost in one snapshot, since their ring was held."
            "\n\n" +
            table(["MiB", "", "", "longest µs", "longest while it had the CPU µs", "turned away", "snapshot ms"], late)), figures
