# SPDX-License-Identifier: MIT
"""What the daemon spends on each record that it writes, by strategy: a short run of tests/bench/io, which has all the rest."""
import json
import os
import subprocess
import sys

from tables import median, ratios, spread, table

TITLE = "The daemon's CPU"


def run(stage):
    o = stage.options
    rate = o.rate
    path = f"{stage.work}/io.json"
    command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "io"), "--build", stage.build,
               "--directory", stage.options.directory, "--parts", "sessions", "--policies", "discard", "--strategies",
               "auto,write,mmap,splice,direct", "--clocks", o.clocks[0], "--rates", str(rate), "--seconds", str(o.seconds),
               "--rounds", str(o.rounds_io), "--keep-free", "2G", "--json", path, *([] if stage.lttng else ["--without-lttng"]),
               *(["--verify"] if o.verify else []), "--compiled"]
    if stage.lttng:
        stage.lttng.close()  # there is one of them, in this place; and this part's last
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if stage.lttng:
        stage.lttng = type(stage.lttng)(stage.work)
    if r.returncode:
        stage.faults.append(f"the daemon's CPU: {' '.join(command)}: {r.stdout}")
        return "It failed.", {}
    rows, figures = [], {}
    results = json.load(open(path))
    beside = next((c["rows"] for c in results if c["case"] == "LTTng"), None)
    for c in results:
        ms = [x["per_million"] for x in c["rows"]]
        lost = [100 * x["lost"] / x["records"] for x in c["rows"]]
        ratio = ratios(ms, [x["per_million"] for x in beside]) if beside and c["rows"] is not beside else None
        rows.append([c["case"] if c["case"] == "LTTng" else f"`{c['case']}`", spread(ms, 1), f"**{spread(ratio)}**" if ratio else None,
                     spread(lost, 3)])
        if ratio:
            figures[c["case"]] = median(ratio)
    return (f"A program that makes {rate / 1e6:g} million calls a second (one u64, vpid and vtid) into a session that discards, for "
            f"{o.seconds:g} s; CPU of tracerd, or of lttng-consumerd, in all, per million records written. All policies and rates: "
            "[Sessions that write](#sessions-that-write).\n\n" +
            table(["`io`", "ms per million records", "beside LTTng", "lost %"], rows)), figures
