# SPDX-License-Identifier: MIT
"""A throw-away machine: a real systemd as PID 1 over a copy-on-write view of this root file system, with the
project installed into it. Nothing that runs inside can change what lies outside, several may run at one
time, and whatever way the tests end, nothing stays: no mount, no control group, no process, no file.

It boots to basic.target, so that what else is enabled here (databases, web servers) does not start."""
import atexit
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

BASE = pathlib.Path('/var/tmp')
PREFIX = 'tracer-machine-'
CGROUPS = pathlib.Path('/sys/fs/cgroup')
ENVIRONMENT = {'PATH': '/usr/sbin:/usr/bin:/sbin:/bin', 'LANG': 'C.UTF-8', 'HOME': '/root', 'TERM': 'dumb'}
# what nspawn's own filter would refuse to programs that a real machine lets through
SYSCALLS = '@memlock @resources perf_event_open @keyring'


class Impossible(Exception):
    """This machine cannot run one inside; the text says why."""


class Timeout(AssertionError):
    pass


def cgroup_root():
    unified = CGROUPS / 'unified'
    return unified if unified.is_dir() else CGROUPS


def check_possible():
    if os.geteuid() != 0:
        raise Impossible('needs root')
    for tool in ('systemd-nspawn', 'nsenter', 'busctl', 'dbus-daemon', 'babeltrace2'):
        if not shutil.which(tool):
            raise Impossible(f'{tool} is not installed')
    if not (cgroup_root() / 'cgroup.procs').exists():
        raise Impossible('no control groups (version 2) here')
    if not os.access(cgroup_root(), os.W_OK) or os.statvfs(cgroup_root()).f_flag & os.ST_RDONLY:
        raise Impossible('control groups are read-only here')


def remove_cgroup(path):
    if not path.is_dir():
        return
    kill = path / 'cgroup.kill'
    if kill.exists():
        kill.write_text('1')
        events = path / 'cgroup.events'
        wait_file(events, lambda text: 'populated 0' in text, 10)
    for directory, _, _ in os.walk(path, topdown=False):
        try:
            os.rmdir(directory)
        except OSError:
            pass


def wait_file(path, condition, timeout):
    """Waits for a cgroup event file: the kernel wakes poll() with POLLPRI when it changes."""
    import select
    deadline = time.monotonic() + timeout
    with open(path) as f:
        poll = select.poll()
        poll.register(f, select.POLLPRI)
        while True:
            f.seek(0)
            if condition(f.read()):
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise Timeout(f'{path} did not change in {timeout} s')
            poll.poll(left * 1000)


def remove_machine(name):
    """Undoes everything that a machine of this name may have left, in whatever state."""
    remove_cgroup(cgroup_root() / name)
    remove_cgroup(CGROUPS / 'systemd' / name)
    directory = BASE / name
    for mount in (directory / 'root', directory):
        while os.path.ismount(mount):
            if subprocess.run(['umount', str(mount)], capture_output=True).returncode != 0:
                subprocess.run(['umount', '-l', str(mount)], capture_output=True)
    shutil.rmtree(directory, ignore_errors=True)
    for left in (pathlib.Path('/run/systemd/nspawn/propagate') / name,):
        try:
            left.rmdir()
        except OSError:
            pass


def sweep():
    """Machines of runs that were killed before they could clean up."""
    for directory in BASE.glob(PREFIX + '*'):
        pid = directory.name[len(PREFIX):].split('-')[0]
        if pid.isdigit() and not pathlib.Path('/proc', pid).exists():
            remove_machine(directory.name)


class Journal:
    """Everything the machine's journal says, as it is said."""

    def __init__(self, machine):
        self.machine = machine
        self.n_marks = 0
        self.entries = []
        self.changed = threading.Condition()
        self.follower = machine.popen('journalctl', '-f', '-n', 'all', '-o', 'json', '--all', '--no-pager',
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.follower.stdout:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            with self.changed:
                self.entries.append(entry)
                self.changed.notify_all()

    def mark(self):
        """Where the journal is now. What was said before is behind it, also what is still on its way to us."""
        self.n_marks += 1
        text = f'mark {self.n_marks}'
        self.machine.run('journalctl', '--sync')
        self.machine.run('systemd-cat', '-t', 'test', 'echo', text)
        self.wait({'SYSLOG_IDENTIFIER': 'test', 'MESSAGE': text})
        with self.changed:
            return len(self.entries)

    def wait(self, condition, since=0, timeout=20, what='a journal entry'):
        """The first entry after `since` that satisfies the condition (a function, or fields that must match)."""
        fields = condition
        if not callable(condition):
            condition = lambda e: all(str(e.get(k, '')) == v for k, v in fields.items())
            what = f'a journal entry with {fields}'
        deadline = time.monotonic() + timeout
        i = since
        with self.changed:
            while True:
                while i < len(self.entries):
                    if condition(self.entries[i]):
                        return self.entries[i]
                    i += 1
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Timeout(f'{what} did not come in {timeout} s')
                self.changed.wait(left)

    def text(self, since=0):
        with self.changed:
            return [f"{e.get('SYSLOG_IDENTIFIER', '?')}[{e.get('_PID', '')}]: {e.get('MESSAGE', '')}"
                    for e in self.entries[since:]]


class Machine:
    def __init__(self, build):
        check_possible()
        sweep()
        self.build = pathlib.Path(build).resolve()
        self.name = f'{PREFIX}{os.getpid()}'
        self.directory = BASE / self.name
        self.root = self.directory / 'root'
        self.nspawn = self.leader = self.journal = None
        atexit.register(self.end)
        for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(s, lambda number, frame: sys.exit(128 + number))

    # ---- before the boot ----
    def prepare_empty(self):
        """An overlay without anything of the project."""
        self._mount()
        # The journals of this machine are none of its business, and would be copied up.
        shutil.rmtree(self.root / 'var/log/journal', ignore_errors=True)
        # Nor is a daemon's state that may be installed here.
        shutil.rmtree(self.root / 'var/lib/tracer', ignore_errors=True)
        shutil.rmtree(self.root / 'etc/tracer', ignore_errors=True)

    def prepare(self):
        """An overlay with the project installed as `meson install` does it, and its users made."""
        self.prepare_empty()
        r = subprocess.run(['meson', 'install', '-C', str(self.build), '--no-rebuild', '--quiet'],
                           env=dict(os.environ, DESTDIR=str(self.root)), capture_output=True, text=True)
        if r.returncode != 0:
            raise AssertionError('meson install failed:\n' + r.stdout + r.stderr)
        self.chroot('ldconfig')
        self.chroot('systemd-sysusers')
        self.chroot('journalctl', '--update-catalog')

    def _mount(self):
        for attempt in ('disk', 'memory'):
            if attempt == 'memory':
                # this root is an overlay itself, which cannot be the upper part of another
                subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', str(self.directory)], check=True)
            for part in ('upper', 'work', 'root'):
                (self.directory / part).mkdir(parents=True, exist_ok=True)
            r = subprocess.run(['mount', '-t', 'overlay', 'overlay', '-o',
                                f'lowerdir=/,upperdir={self.directory}/upper,workdir={self.directory}/work',
                                str(self.root)], capture_output=True, text=True)
            if r.returncode == 0:
                return
        raise Impossible('no overlay file system here: ' + r.stderr.strip())

    def chroot(self, *command):
        r = subprocess.run(['chroot', str(self.root), *command], env=ENVIRONMENT, capture_output=True, text=True)
        if r.returncode != 0:
            raise AssertionError(f'{" ".join(command)} in the new root: {r.stdout}{r.stderr}')
        return r.stdout

    def write(self, path, text, mode=0o644):
        """A file of the machine; before the boot as well as after it (but not below /run or /tmp then)."""
        target = self.root / path.lstrip('/')
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        target.chmod(mode)

    # ---- life ----
    def boot(self, timeout=60):
        cgroup = cgroup_root() / self.name
        cgroup.mkdir(exist_ok=True)
        notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        notify.bind(str(self.directory / 'notify'))
        notify.settimeout(timeout)
        command = ['systemd-nspawn', '--quiet', '--machine', self.name, '--directory', str(self.root), '--boot',
                   # Without machined, and in a cgroup of its own: with --keep-unit alone, two machines of one
                   # session share /payload and manage each other's units.
                   '--register=no', '--keep-unit', '--link-journal=no', '--console=pipe', '--private-network',
                   '--resolv-conf=off', '--timezone=off', '--notify-ready=yes', '--capability=all',
                   f'--system-call-filter={SYSCALLS}', 'systemd.unit=basic.target']

        def enter():
            (cgroup / 'cgroup.procs').write_text(str(os.getpid()))
            os.setsid()

        with open(self.directory / 'console', 'w') as console:
            self.nspawn = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, preexec_fn=enter,
                env=dict(ENVIRONMENT, NOTIFY_SOCKET=str(self.directory / 'notify'),
                         SYSTEMD_NSPAWN_UNIFIED_HIERARCHY='1'))
        died = threading.Thread(target=lambda: (self.nspawn.wait(), notify.shutdown(socket.SHUT_RDWR)), daemon=True)
        died.start()
        ready = False
        while not ready:
            try:
                message = notify.recv(4096).decode()
            except TimeoutError:
                message = ''
            if not message:
                raise AssertionError('the machine did not come up:\n' + self.console())
            for line in message.split('\n'):
                if line.startswith('X_NSPAWN_LEADER_PID='):
                    self.leader = line.split('=')[1]
                ready = ready or line == 'READY=1'
        self.journal = Journal(self)

    def console(self):
        try:
            return (self.directory / 'console').read_text(errors='replace')
        except OSError:
            return ''

    def _enter(self, command):
        return ['nsenter', '--target', self.leader, '--mount', '--uts', '--ipc', '--net', '--pid', '--cgroup',
                '--root', '--wd', '--', *map(str, command)]

    def popen(self, *command, **kw):
        kw.setdefault('stdin', subprocess.DEVNULL)
        return subprocess.Popen(self._enter(command), env=ENVIRONMENT, text=True, **kw)

    def run(self, *command, check=True, timeout=60, user=None, **kw):
        """A command inside, as root or as a user with the groups that the machine's files give him."""
        if user:
            gid = next(line.split(':')[3] for line in (self.root / 'etc/passwd').read_text().splitlines()
                       if line.split(':')[0] == user)
            command = ('setpriv', f'--reuid={user}', f'--regid={gid}', '--init-groups', '--', *command)
        kw.setdefault('stdin', subprocess.DEVNULL)
        r = subprocess.run(self._enter(command), env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout, **kw)
        if check and r.returncode != 0:
            raise AssertionError(f'{" ".join(map(str, command))}: rc {r.returncode}\n{r.stdout}{r.stderr}')
        return r

    def out(self, *command, **kw):
        return self.run(*command, **kw).stdout.strip()

    def show(self, unit, prop):
        return self.out('systemctl', 'show', '--value', '-p', prop, unit)

    def wait_unit(self, unit, prop, wanted, timeout=20):
        """Waits for a property of a unit. systemd writes of each step of a unit's life into the journal before it answers
        the next question, so each entry is a reason to ask again. (Its signals are no help: they go out
        only while somebody has subscribed, which may be the very service that is waited for.)"""
        deadline = time.monotonic() + timeout
        while True:
            with self.journal.changed:
                seen = len(self.journal.entries)
            value = self.show(unit, prop)
            if value == wanted or callable(wanted) and wanted(value):
                return value
            if time.monotonic() > deadline:
                raise Timeout(f'{prop} of {unit} is {value} after {timeout} s, not {wanted}')
            with self.journal.changed:
                if len(self.journal.entries) == seen:
                    self.journal.changed.wait(deadline - time.monotonic())

    def end(self):
        atexit.unregister(self.end)
        for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(s, signal.SIG_IGN)
        remove_machine(self.name)
        if self.nspawn:
            self.nspawn.wait()
        for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(s, signal.SIG_DFL)
