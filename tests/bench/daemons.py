# SPDX-License-Identifier: MIT
"""What the runners of tests/bench share: both daemons, each private."""
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def sh(*cmd, check=True, env=None, quiet=False):
    r = subprocess.run(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    if check and r.returncode:
        sys.exit(f"bench: {' '.join(cmd)}: exit status {r.returncode}\n{r.stdout}")
    return r.stdout


def cpu_seconds(pid):
    """CPU time of a process with all threads that it has and had: its CPU clock, in nanoseconds, not in ticks."""
    return time.clock_gettime_ns(~pid << 3 | 2) / 1e9


def open_files():
    """As many as may be: a daemon of a thousand programs holds several for each."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Lttng:
    """A private lttng-sessiond: enter_namespace() has put us into a mount namespace with empty /run/lttng and /dev/shm."""

    def __init__(self, work):
        self.work = work
        os.environ["LTTNG_HOME"] = work
        open_files()
        self.proc = subprocess.Popen(["lttng-sessiond", "--no-kernel"], stdout=subprocess.DEVNULL,
                                     stderr=open(f"{work}/sessiond.log", "w"))
        deadline = time.monotonic() + 20
        # its socket answers when it is ready: ask until it does
        while subprocess.run(["lttng", "--no-sessiond", "list"], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL).returncode:
            if time.monotonic() > deadline or self.proc.poll() is not None:
                sys.exit("bench: lttng-sessiond did not start: " + open(f"{work}/sessiond.log").read())

    def create(self, name, contexts, subbuf="1M", count=4, snapshot=True, events="bench:one,bench:mixed"):
        """A session: a flight recorder, or one that writes and discards. Rings: `count` sub-buffers for each CPU."""
        out = f"{self.work}/{name}"
        sh("lttng", "create", name, *(["--snapshot"] if snapshot else []), "-o", out)
        sh("lttng", "enable-channel", "-u", "-s", name, "--overwrite" if snapshot else "--discard",
           f"--subbuf-size={subbuf}", f"--num-subbuf={count}", "ch")
        sh("lttng", "enable-event", "-u", "-s", name, "-c", "ch", events)
        if contexts:
            sh("lttng", "add-context", "-u", "-s", name, "-c", "ch", "-t", "vpid", "-t", "vtid")
        sh("lttng", "start", name)
        return out

    def snapshot(self, name):
        sh("lttng", "snapshot", "record", "-s", name)

    def stop(self, name):
        """Returns when all is written, and no event is under way."""
        sh("lttng", "stop", name)

    def consumers(self):
        """Pids of lttng-consumerd: it is a child of the session daemon, and has a child of its own."""
        found, ask = [], [self.proc.pid]
        while ask:
            pid = ask.pop()
            for task in os.listdir(f"/proc/{pid}/task"):
                ask += [int(c) for c in open(f"/proc/{pid}/task/{task}/children").read().split()]
            if open(f"/proc/{pid}/cmdline").read().startswith("lttng-consumerd"):
                found.append(pid)
        return found

    def discarded(self, name):
        # now and then 2^63 is added to what it says
        return int(re.search(r"<discarded_events>(\d+)<", sh("lttng", "--mi", "xml", "list", name)).group(1)) & (1 << 63) - 1

    def destroy(self, name):
        sh("lttng", "destroy", name)

    def close(self):
        self.proc.terminate()
        self.proc.wait()


class Tracer:
    """tracerd and a bus of its own, below one temporary directory."""

    def __init__(self, work, build, clock, sessions=""):
        open_files()
        self.dir = tempfile.mkdtemp(prefix="tracer-", dir=work)
        self.build = build
        bus = f"{self.dir}/bus"
        with open(f"{self.dir}/bus.conf", "w") as f:
            f.write(f"""<busconfig><type>custom</type><listen>unix:path={bus}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_destination="*"/><allow eavesdrop="false"/>
</policy></busconfig>""")
        self.log = open(f"{self.dir}/tracerd.log", "w")
        self.bus = subprocess.Popen(["dbus-daemon", f"--config-file={self.dir}/bus.conf", "--nofork",
                                     "--print-address=1"], stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.bus.stdout.readline()
        self.address = f"unix:path={bus}"
        with open(f"{self.dir}/tracer.conf", "w") as f:
            f.write('daemon: { clock = "%s"; max_memory = "8G"; max_memory_per_user = "8G"; max_producers = 9000; '
                    'max_producers_per_user = 9000; };\nsessions: { %s };\n' % (clock, sessions))
        os.mkdir(f"{self.dir}/run"), os.mkdir(f"{self.dir}/state")
        self.proc = subprocess.Popen(
            [f"{build}/daemon/tracerd", "--user", f"--address={self.address}", f"--config={self.dir}/tracer.conf",
             f"--runtime-directory={self.dir}/run", f"--state-directory={self.dir}/state"],
            stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 20
        while subprocess.run(self.command("list"), stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL).returncode:
            if time.monotonic() > deadline or self.proc.poll() is not None:
                said = self.said()
                self.close()
                sys.exit("bench: tracerd did not start: " + said)
        self.env = dict(os.environ, TRACER_RUNTIME_DIR=f"{self.dir}/run",
                        LD_LIBRARY_PATH=f"{build}/lib:" + os.environ.get("LD_LIBRARY_PATH", ""))

    def said(self):
        return open(f"{self.dir}/tracerd.log").read()

    def command(self, *args):
        return [f"{self.build}/dbus/tracerctl", f"--address={self.address}", *args]

    def ctl(self, *args):
        r = subprocess.run(self.command(*args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if r.returncode:
            ended = self.proc.poll()
            sys.exit(f"bench: tracerctl {' '.join(args)}: exit status {r.returncode}\n{r.stdout}tracerd "
                     f"{'is running' if ended is None else f'has ended: {ended}'}\n{self.said()}")
        return r.stdout

    def properties(self, name):
        return json.loads(self.ctl("--json", "show", name))

    def stop(self, name):
        """Returns when all that was recorded is written, whether the stop itself waits for it or not."""
        self.ctl("stop", name)
        deadline = time.monotonic() + 60
        while (state := self.properties(name)["state"]) != "stopped":
            if time.monotonic() > deadline:
                sys.exit(f"bench: session {name} is {state} a minute after it was told to stop\n{self.said()}")
            time.sleep(0.01)

    def create(self, name, contexts, memory="10M", events="bench:one,bench:mixed", **settings):
        """A session, started. Settings: keys of tracer.conf."""
        self.ctl("create", name, f"events={events}", f"memory={memory}", "snapshot.on_crash=false", "snapshot.keep_free=0",
                 "contexts=" + ("vpid,vtid" if contexts else ""), *[f"{k}={v}" for k, v in settings.items()])
        self.ctl("start", name)

    def snapshot(self, name):
        """Returns its directory."""
        return self.ctl("snapshot", name).split()[-1]

    def remove(self, name):
        self.ctl("remove", name)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        self.proc.terminate()
        self.proc.wait()
        self.bus.terminate()
        self.bus.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def stream_bytes(directory):
    """Bytes of all stream files of the traces below a directory (LTTng writes no index for snapshots)."""
    total = 0
    for root, _, files in os.walk(directory):
        if os.path.basename(root) != "index":
            total += sum(os.path.getsize(os.path.join(root, f)) for f in files if f != "metadata")
    return total


def count_events(directory):
    out = sh("babeltrace2", directory, "-c", "sink.utils.counter", "-p", "step=+0")
    return sum(int(x) for x in re.findall(r"(\d+) Event messages?", out))


def machine():
    model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    clocks = "/sys/devices/system/clocksource/clocksource0/available_clocksource"
    lttng = f"; {sh('lttng', '--version').split('-')[0].strip()}" if shutil.which("lttng") else ""
    return (f"{os.cpu_count()} CPUs ({model.group(1) if model else os.uname().machine}), Linux "
            f"{os.uname().release.split('-')[0]}, clock sources of the kernel: {open(clocks).read().strip()}{lttng}")


def enter_namespace(script):
    """Runs the script again in a mount namespace where LTTng's directories are empty and ours."""
    if os.environ.get("TRACER_BENCH_NAMESPACE") == "1":
        return
    os.makedirs("/run/lttng", exist_ok=True)
    os.environ["TRACER_BENCH_NAMESPACE"] = "1"
    os.execvp("unshare", ["unshare", "-m", "sh", "-c",
                          "mount --make-rprivate / && mount -t tmpfs none /run/lttng && "
                          "mount -t tmpfs none /dev/shm && exec \"$0\" \"$@\"",
                          sys.executable, os.path.abspath(script), *sys.argv[1:]])


def compile_all(build):
    if not os.path.exists(f"{build}/build.ninja"):
        sh("meson", "setup", "-Dbench=true", "--buildtype=release", build, ROOT)
    sh("ninja", "-C", build, "bench-programs")
