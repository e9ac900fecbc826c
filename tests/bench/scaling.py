# SPDX-License-Identifier: MIT
"""Several threads and processes that record at one time, into the same session."""
import laps
from tables import median, ratios, spread, table

TITLE = "Threads and processes"
SHAPES = (("1", "1 thread"), ("2", "2 threads"), ("4", "4 threads"), ("1x2", "2 processes of a thread"))


def run(stage):
    figures, lines = {}, []
    for clock in stage.options.clocks:
        loops = [f"{side}@{shape}" for shape, _ in SHAPES for side in (f"{clock}-one", "lttng-one", "tracer-one")]
        with stage.tracer(clock) as tracer:
            laps.begin(stage, tracer, True, ("cost",))
            r = laps.run(stage, tracer, loops)
            laps.end(stage, tracer, r, f"threads, clock {clock}", ("cost",))
        rows = []
        for shape, title in SHAPES:
            t, l, f = (r.cpu.get(f"{side}@{shape}") for side in ("tracer-one", "lttng-one", f"{clock}-one"))
            more = {}
            for side in ("tracer-one", "lttng-one", f"{clock}-one"):
                if f"{side}@{shape}" in r.wall:
                    more[side] = ratios(r.wall[f"{side}@1"], r.wall[f"{side}@{shape}"])
            rows.append([title, spread(l, 1) if l else "-", spread(t, 1), f"**{spread(ratios(t, l), 3)}**" if l else "-",
                         spread(ratios(t, f), 3), spread(more["lttng-one"]) if l else "-", spread(more["tracer-one"]),
                         spread(more[f"{clock}-one"])])
            if shape == "2":
                figures[f"{clock} wall"] = median(more["tracer-one"])
                figures[f"{clock} cpu"] = median([2 * x for x in ratios(r.cpu["tracer-one@1"], r.cpu["tracer-one@2"])])
                figures[f"{clock} floor"] = median(more[f"{clock}-one"])
        lines += [f"\nClock `{clock}`, one u64, overwrite, vpid and vtid. ns are CPU time per call; *times as many* is calls in a "
                  "second of the wall, beside one thread:\n",
                  table(["", "LTTng ns", "tracer ns", "tracer / LTTng", "tracer / floor", "LTTng, times as many",
                         "tracer, times as many", "floor, times as many"], rows)]
    return "\n".join(lines), figures
