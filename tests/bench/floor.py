# SPDX-License-Identifier: MIT
"""What a record costs above the floor, which is a look at the clock and the same bytes stored in a loop."""
import laps
from record import KINDS
from tables import median, ratios, spread, table

TITLE = "Cost of a record above the floor"


def run(stage):
    figures, rows = {}, []
    kinds = KINDS[:3]
    for clock in stage.options.clocks:
        loops = [f"clock-{clock}"]
        for loop, _ in kinds:
            loops += [f"{clock}-{loop}", f"tracer-{loop}"]
        with stage.tracer(clock) as tracer:
            laps.begin(stage, tracer, True, ("cost",))
            r = laps.run(stage, tracer, loops)
            laps.end(stage, tracer, r, f"floor, clock {clock}", ("cost",))
        for loop, title in kinds:
            f, t = r.cpu[f"{clock}-{loop}"], r.cpu[f"tracer-{loop}"]
            rows.append([f"`{clock}`", title, spread(r.cpu[f"clock-{clock}"], 1), spread(f, 1), spread(t, 1),
                         f"**{spread(ratios(t, f), 3)}**"])
            figures[f"{clock} {loop}"] = median(ratios(t, f))
    return (table(["clock", "record", "the clock alone ns", "floor ns", "tracer ns", "tracer / floor"], rows)), figures
