# SPDX-License-Identifier: MIT
"""What a program and a session hold, and what a record takes of the disk."""
import os
import re
import shutil

import laps
from tables import table

TITLE = "Memory"
K = 1024


def rollup(pid):
    text = open(f"/proc/{pid}/smaps_rollup").read()
    return {k: int(n) for k, n in re.findall(r"^(\w+): +(\d+) kB", text, re.M)}


def rings(stage, tracer, side):
    """KiB of shared memory that the daemon of this side has allocated."""
    if side == "lttng":  # a file system of its own, see enter_namespace()
        fs = os.statvfs("/dev/shm")
        return (fs.f_blocks - fs.f_bfree) * fs.f_frsize // K
    total = 0
    folder = f"/proc/{tracer.proc.pid}/fd"
    for fd in os.listdir(folder):
        if os.readlink(f"{folder}/{fd}").startswith("/memfd:"):
            total += os.stat(f"{folder}/{fd}").st_blocks * 512 // K
    return total


def private(pids):
    """KiB that would be free if they were gone, rings left aside: those are shared memory."""
    return sum(r["Pss"] - r.get("Pss_Shmem", 0) for r in map(rollup, pids))


def hold(stage, tracer, program, n, look=lambda: None):
    """n of a program; returns of one of them PSS without shared memory, its part of shared memory, and its resident set; and what
    look() says while they are there."""
    them = [stage.talk(tracer, program, "wait") for _ in range(n)]
    for p in them:
        p.hear()
    all_of = [rollup(p.pid) for p in them]
    seen = look()
    for p in them:
        p.end()
    def mean(f):
        return sum(map(f, all_of)) / n
    return (mean(lambda r: r["Pss"] - r["Pss_Shmem"]), mean(lambda r: r["Pss_Shmem"]), mean(lambda r: r["Rss"])), seen


def daemons(stage, tracer, side):
    return [tracer.proc.pid] if side == "tracer" else [stage.lttng.proc.pid] + stage.lttng.consumers()


def programs(stage, tracer, figures):
    n, rows = stage.options.programs, []
    for state in ("no session", "a session wants it"):
        for side in stage.sides():
            def look():
                return rings(stage, tracer, side), private(daemons(stage, tracer, side))
            before = look()
            if state != "no session":
                if side == "lttng":
                    stage.lttng.create("hold", True, "1M", 4, events="bench:one")
                else:
                    tracer.create("hold", True, "10M", "bench:one")
            (own, part, resident), now = hold(stage, tracer, f"start-{side}", n, look)
            bare, _ = hold(stage, tracer, "start-none", n)
            rows.append([{"lttng": "LTTng-UST", "tracer": "tracer"}[side], state, f"{own:.0f} ({own - bare[0]:+.0f})",
                         f"{part:.0f}", f"{resident:.0f}", f"{now[0] - before[0]}", f"{now[1]:.0f} ({now[1] - before[1]:+.0f})"])
            figures[f"{side} {state}"] = own - bare[0]
            figures[f"{side} {state}, daemon"] = now[1]
            if state != "no session":
                if side == "lttng":
                    stage.lttng.destroy("hold")
                    stage.clear("hold")
                else:
                    v = tracer.properties("hold")
                    stage.agree("memory: programs and their records", n, v["recorded"] + v["discarded"])
                    tracer.remove("hold")
    return (f"{n} programs at one time, in KiB. *Own* is PSS without shared memory (in brackets: beyond the uninstrumented program); "
            "*rings* is its part of the rings' memory; *shared* is what shared memory the daemon allocated for them all; *daemon* is the "
            f"PSS of all of its processes without that (and how much it became more). Rings: 4 MiB for each of {os.cpu_count()} CPUs, and "
            "tracer's side rings.\n\n" +
            table(["", "", "own", "rings", "resident", "shared", "daemon"], rows))


def records(stage, tracer, figures):
    rows = []
    for contexts in (True, False):
        for loop, title in (("one", "one u64"), ("mixed", "u64 + u32 + 16-byte string"), ("text", "200-byte string")):
            n = stage.options.kept_records
            if stage.lttng:
                stage.lttng.create("size", contexts, "16M", 4, events=f"bench:{loop}")
            tracer.create("size", contexts, f"{64 * os.cpu_count() * 5 // 4 + 1}M", f"bench:{loop}")
            r = laps.run(stage, tracer, [f"lttng-{loop}", f"tracer-{loop}"], 1, n)
            path = tracer.snapshot("size")
            t, count = laps.bytes_each(path)
            v = tracer.properties("size")
            stage.agree(f"bytes, {title}: tracer's calls, recorded, and counted by babeltrace2", r.calls[f"tracer-{loop}"],
                        v["recorded"], count)
            shutil.rmtree(path)
            tracer.remove("size")
            l = None
            if stage.lttng:
                stage.lttng.snapshot("size")
                l, count = laps.bytes_each(f"{stage.work}/size")
                stage.agree(f"bytes, {title}: LTTng's calls, and counted by babeltrace2", r.calls[f"lttng-{loop}"], count)
                stage.lttng.destroy("size")
                stage.clear("size")
            if contexts:
                figures[f"bytes {loop}"] = t
            rows.append([f"{title}{', vpid and vtid' if contexts else ''}", f"{l:.2f}" if l else "-", f"{t:.2f}"])
    return (f"\nBytes of a record: stream files over the number of events that babeltrace2 counts, packet headers and padding included, "
            f"{stage.options.kept_records * 3} records of which none was lost.\n\n" + table(["record", "LTTng", "tracer"], rows))


def run(stage):
    figures = {}
    with stage.tracer() as tracer:
        return stage.patiently(lambda: programs(stage, tracer, figures)) + "\n" + records(stage, tracer, figures), figures
