# SPDX-License-Identifier: MIT
"""What a record costs beside LTTng's, in every kind of session; and above the floor, which is a look at the clock and the same
bytes stored in a loop."""
import laps
from tables import median, ratios, spread, table

TITLE = "Cost of a record"

# loop, title
KINDS = (("one", "one u64, overwrite"), ("mixed", "u64 + u32 + 16-byte string, overwrite"), ("text", "200-byte string, overwrite"),
         ("twice", "one u64, two sessions at once"), ("kept", "one u64, discard, with a consumer that writes to disk"),
         ("small", "one u64, overwrite, parts of 4 KiB"))
SMALL_PART = 4096
RECORDS = {"tracer": (SMALL_PART - 128) // 24, "lttng": (SMALL_PART - 76) // 22}  # with vpid and vtid, of one part


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
        cells = [f"{side} {spread([(s - o) * RECORDS[side.lower()] for s, o in zip(r.cpu[f'{side.lower()}-small'], r.cpu[f'{side.lower()}-one'])], 0)}"
                 for side in ("LTTng", "tracer") if f"{side.lower()}-small" in r.cpu]
        lines.append(f"\nEntering a part of a ring: what a record that crosses costs beyond another, in ns, by the difference of "
                     f"parts of 4 KiB ({RECORDS['tracer']} records of tracer's, {RECORDS['lttng']} of LTTng's) and large ones: "
                     f"{', '.join(cells)}.")
    return lines


def run(stage):
    figures, lines = {}, []
    for clock in stage.options.clocks:
        for contexts in (True, False):
            lines += compare(stage, clock, contexts, figures)
    return "\n".join(lines), figures


class Floor:
    TITLE = "Cost of a record above the floor"

    @staticmethod
    def run(stage):
        """One slice has both clocks' floors; tracer's record has one of them."""
        figures, lines, rows = {}, [], []
        kinds = KINDS[:3]
        for clock in stage.options.clocks:
            with stage.tracer(clock) as tracer:
                laps.begin(stage, tracer, True, ("cost",))
                r = laps.run(stage, tracer, [f"clock-{clock}"] + [x for loop, _ in kinds for x in
                                                                 (f"{clock}-{loop}", f"tracer-{loop}")])
                laps.end(stage, tracer, r, f"floor, clock {clock}", ("cost",))
            for loop, title in kinds:
                f, t = r.cpu[f"{clock}-{loop}"], r.cpu[f"tracer-{loop}"]
                rows.append([f"`{clock}`", title, spread(r.cpu[f"clock-{clock}"], 1), spread(f, 1), spread(t, 1),
                             f"**{spread(ratios(t, f), 3)}**"])
                figures[f"{clock} {loop}"] = median(ratios(t, f))
        lines.append(table(["clock", "record", "the clock alone ns", "floor ns", "tracer ns", "tracer / floor"], rows))
        return "\n".join(lines), figures
