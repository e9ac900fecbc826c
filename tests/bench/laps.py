# SPDX-License-Identifier: MIT
"""Runs `sides` and reads what it says; and the sessions that its loops record into, on both sides."""
import os
import shutil

from daemons import count_events, stream_bytes

RECORD = 24  # bytes: one u64 with vpid and vtid

# session -> loops that record into it (without the side's name), and the shape of it on each side: rings of 4 MiB for each
# CPU, for `small` in parts of 4 KiB; `kept`, which writes, has room for a whole slice.
SESSIONS = {
    "cost": dict(loops=("one", "mixed", "text", "bytes")),
    "twice-a": dict(loops=("twice",)),
    "twice-b": dict(loops=("twice",)),
    "small": dict(loops=("small",), lttng=("4096", 1024), tracer=dict(sub_buffers=1024)),
    "kept": dict(loops=("kept",), writes=True),
}


class Laps:
    """Lists by loop, one number for each slice."""

    def __init__(self, out):
        self.cpu, self.wall, self.calls = {}, {}, {}
        for line in out.splitlines():
            word = line.split()
            if word[0] == "slice":
                self.cpu.setdefault(word[2], []).append(float(word[3]))
                self.wall.setdefault(word[2], []).append(float(word[4]))
            elif word[0] == "calls":
                self.calls[word[1]] = int(word[2])

    def total(self, side, events):
        return sum(n for loop, n in self.calls.items() if loop.split(":")[0].split("@")[0] in
                   [f"{side}-{event}" for event in events])


def run(stage, tracer, loops, slices=None, calls=None, wanted=True):
    """wanted: there is a session."""
    o = stage.options
    if not stage.lttng:
        loops = [loop for loop in loops if not loop.startswith("lttng-")]
    processes = max(int(loop.split("x")[-1]) if "@" in loop and "x" in loop.split("@")[1] else 1 for loop in loops)
    args = [slices or o.slices, calls or o.calls, *loops]
    if not wanted:
        return Laps(stage.talk(tracer, "sides", *args).end())
    out = stage.greet(tracer, "sides", *args, processes=processes).end()
    stage.ungreet(tracer, processes=processes)
    return Laps(out)


def kept_mib(calls):
    """Of one ring: the least power of two that all records of a slice fit into."""
    return 1 << max(2, (calls * RECORD >> 20).bit_length())


def begin(stage, tracer, contexts, names=SESSIONS):
    cpus, mib = os.cpu_count(), kept_mib(stage.options.calls)
    for name in names:
        kind = SESSIONS[name]
        events = ",".join(f"bench:{loop}" for loop in kind["loops"])
        writes = "writes" in kind
        if stage.lttng:
            stage.lttng.create(name, contexts, *((f"{mib * 256}K", 4) if writes else kind.get("lttng", ("1M", 4))),
                               snapshot=not writes, events=events)
        settings = kind.get("tracer", {})
        if writes:
            settings = dict(policy="discard", io="auto", output=f"{stage.work}/tracer-{name}", output_keep_free="0")
        # its side rings, and what else is charged, are in `memory` too: a little more than the rings
        tracer.create(name, contexts, f"{(mib if writes else 4) * cpus * 5 // 4 + 1}M", events, **settings)


def end(stage, tracer, laps, what, names=SESSIONS):
    """Every call is recorded or counted as lost; what a session writes is in its files. Returns per cent lost by side, of those
    that write."""
    lost = {}
    for name in names:
        kind = SESSIONS[name]
        made = laps.total("tracer", kind["loops"])
        if "writes" in kind:
            tracer.stop(name)
        v = tracer.properties(name)
        where = f"{what}, session {name}"
        stage.agree(f"{where}: tracer's calls, recorded and lost", made, v["recorded"] + v["discarded"])
        if "writes" in kind:
            out = f"{stage.work}/tracer-{name}"
            lost["tracer"] = 100 * v["discarded"] / made if made else 0
            stage.agree(f"{where}: tracer's recorded and written", v["recorded"], v["written"])
            if stage.options.verify and made:
                stage.agree(f"{where}: tracer's written, and counted by babeltrace2", v["written"], count_events(out))
            shutil.rmtree(out, ignore_errors=True)
        elif stage.options.verify and v["recorded"]:
            path = tracer.snapshot(name)
            stage.agree(f"{where}: tracer's recorded and not overwritten, and counted by babeltrace2",
                        v["recorded"] - v["overwritten"], count_events(path))
            shutil.rmtree(path)
        tracer.remove(name)
        if not stage.lttng:
            continue
        if "writes" in kind:
            made = laps.total("lttng", kind["loops"])
            stage.lttng.stop(name)
            discarded = stage.lttng.discarded(name)
            lost["lttng"] = 100 * discarded / made if made else 0
            stage.lttng.destroy(name)
            if made:
                stage.agree(f"{where}: LTTng's calls, written and discarded", made,
                            count_events(f"{stage.work}/{name}") + discarded)
        else:
            stage.lttng.destroy(name)
        stage.clear(name)
    return lost


def bytes_each(path):
    """Of a record in the files of a trace, headers and padding included; and how many there are."""
    n = count_events(path)
    return stream_bytes(path) / n if n else 0, n
