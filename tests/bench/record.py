# SPDX-License-Identifier: MIT
"""What a record costs beside LTTng's, in every kind of session, and entering a part of a ring."""
import laps
from tables import median, ratios, spread, table

TITLE = "Cost of a record"

# loop, title
KINDS = (("one", "one u64, overwrite"), ("mixed", "u64 + u32 + 16-byte string, overwrite"), ("text", "200-byte string, overwrite"),
         ("twice", "one u64, two sessions at once"), ("kept", "one u64, discard, with a consumer that writes to disk"),
         ("small", "one u64, overwrite, parts of 4 KiB"))
SMALL_PART = 4096
# of one part, with vpid and vtid: a header of 128 bytes and records of 24, LTTng's of 84 and 22
RECORDS = {"tracer": (SMALL_PART - 128) // 24, "lttng": (SMALL_PART - 84) // 22}


def crossing(r, side):
    return [(small - one) * RECORDS[side] for small, one in zip(r.cpu[f"{side}-small"], r.cpu[f"{side}-one"])]


def compare(stage, clock, contexts, figures):
    kinds = KINDS if contexts else KINDS[:3]
    names = laps.SESSIONS if contexts else ("cost",)
    loops = ["empty", f"clock-{clock}", "clock-monotonic"]
    for loop, _ in kinds:
        loops += [f"lttng-{loop}", f"tracer-{loop}"]
    with stage.tracer(clock) as tracer:
        laps.begin(stage, tracer, contexts, names)
        r = laps.run(stage, tracer, list(dict.fromkeys(loops)))
        lost = laps.end(stage, tracer, r, f"record, clock {clock}", names)
    rows = []
    for loop, title in kinds:
        t, l = r.cpu[f"tracer-{loop}"], r.cpu.get(f"lttng-{loop}")
        if loop == "kept":
            title += f" (lost: {', '.join(f'{side} {n:.2f} %' for side, n in lost.items())})"
        beside = ratios(t, l) if l else None
        rows.append([title, spread(l, 1) if l else "-", spread(t, 1), f"**{spread(beside, 3)}**" if l else "-"])
        if l and contexts:
            figures[f"{clock} {loop}"] = median(beside)
    rows.append(["the clock alone", spread(r.cpu["clock-monotonic"], 1), spread(r.cpu[f"clock-{clock}"], 1), None])
    lines = [f"\nClock `{clock}`, {'vpid and vtid on both sides' if contexts else 'no contexts on either side'}:\n",
             table(["record", "LTTng ns", "tracer ns", "tracer / LTTng"], rows)]
    if contexts:
        lines.append(f"\nEntering a part of a ring: what a record that crosses costs beyond another, in ns, by the difference of "
                     f"parts of 4 KiB ({RECORDS['tracer']} records of tracer's, {RECORDS['lttng']} of LTTng's) and large ones: "
                     f"{', '.join(f'{side} {spread(crossing(r, side), 0)}' for side in stage.sides())}.")
    return lines


def run(stage):
    figures, lines = {}, []
    for clock in stage.options.clocks:
        for contexts in (True, False):
            lines += compare(stage, clock, contexts, figures)
    return "\n".join(lines), figures

