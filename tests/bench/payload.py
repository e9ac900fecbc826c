# SPDX-License-Identifier: MIT
"""Records of all sizes, beside a memcpy of the same bytes."""
import laps
from tables import median, ratios, spread, table

TITLE = "Payloads"
# the last is the largest that a record of tracer's holds, with its headers and the count
SIZES = (8, 64, 256, 1024, 4096, 16384, 65000)


def run(stage):
    figures, rows = {}, []
    clock = stage.options.clocks[0]
    loops = [f"{side}:{size}" for size in SIZES for side in (f"{clock}-bytes", "lttng-bytes", "tracer-bytes")]
    with stage.tracer(clock) as tracer:
        laps.begin(stage, tracer, True, ("cost",))
        r = laps.run(stage, tracer, loops)
        laps.end(stage, tracer, r, "payload", ("cost",))
    for size in SIZES:
        t, l, f = (r.cpu.get(f"{side}:{size}") for side in ("tracer-bytes", "lttng-bytes", f"{clock}-bytes"))
        rows.append([size, spread(f, 1), spread(l, 1) if l else "-", spread(t, 1), f"**{spread(ratios(t, l), 3)}**" if l else "-",
                     f"**{spread(ratios(t, f), 3)}**", f"{size / median(t):.1f}"])
        figures[str(size)] = median(ratios(t, f))
    return (f"A sequence of bytes, overwrite, vpid and vtid, clock `{clock}`. *memcpy* is a look at the clock, the header and memcpy "
            "of the same bytes into a ring's memory.\n\n" +
            table(["bytes", "memcpy ns", "LTTng ns", "tracer ns", "tracer / LTTng", "tracer / memcpy", "tracer GB/s"], rows)), figures
