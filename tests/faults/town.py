# SPDX-License-Identifier: MIT
"""A tracerd of its own with everything around it: a bus, a systemd (its end of NOTIFY_SOCKET), programs that record, and
one call of the daemon that fails. What happens is judged here; run says what is to fail."""
import array
import contextlib
import ctypes
import mmap
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import dbus
import dbus.bus

NAME = 'org.tracer.Tracer1'
PATH = '/org/tracer/Tracer1'
MANAGER = NAME + '.Manager'
SESSION = NAME + '.Session'
ERROR = NAME + '.Error.'
PROPERTIES = 'org.freedesktop.DBus.Properties'

# What takes milliseconds; this ends a run that hangs, on a machine with much else to do.
PATIENCE = 20
# What one failed call may make somebody say over the bus: a want of something, never a reproach to who asked
SENSIBLE = {ERROR + e for e in ('NoMemory', 'NoSpace', 'LimitExceeded', 'IO', 'Busy')} | \
    {'org.freedesktop.DBus.Error.' + e for e in ('NoMemory', 'LimitsExceeded', 'IOError')}
# The bus is lost with the connection to it; the daemon comes back by itself.
LOST = {'org.freedesktop.DBus.Error.' + e for e in ('NoReply', 'ServiceUnknown', 'NameHasNoOwner', 'Disconnected')}

# struct page of injector.c
OUTCOMES = ['nothing', 'done', 'implausible']
HEAD = struct.Struct('6I256s64Q')
STEPS_MAX, CALLS_MAX = 16, 512
NO_STEP = STEPS_MAX - 1   # of what the judge does himself: nothing fails in it


class Wrong(Exception):
    """The daemon did what it must not."""


class Refused(Exception):
    def __init__(self, name, text):
        super().__init__(f'{name}: {text}')
        self.name, self.text = name, text


class Lost(Exception):
    pass


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def until(condition, what, patience=PATIENCE):
    """Looks again and again: there is no event for what somebody else's process does."""
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Wrong(f'{what}: waited {patience} s in vain')
        time.sleep(0.005)


class Page:
    """What the injector and we share."""

    def __init__(self, path):
        size = (HEAD.size + 4 * STEPS_MAX * CALLS_MAX + 4095) // 4096 * 4096
        with open(path, 'w+b') as f:
            f.truncate(size)
            self.map = mmap.mmap(f.fileno(), size)
        self.path = path

    def step(self, n):
        self.map[0:4] = struct.pack('I', n)

    def head(self):
        step, outcome, pid, ended, status, n, text, *frames = HEAD.unpack(self.map[:HEAD.size])
        return {'outcome': OUTCOMES[outcome], 'pid': pid, 'ended': bool(ended), 'status': status,
                'text': text.split(b'\0')[0].decode(errors='replace'), 'frames': frames[:n]}

    def counts(self):
        words = struct.unpack(f'{STEPS_MAX * CALLS_MAX}I', self.map[HEAD.size:HEAD.size + 4 * STEPS_MAX * CALLS_MAX])
        return {(i // CALLS_MAX, i % CALLS_MAX): n for i, n in enumerate(words) if n}


class Systemd(threading.Thread):
    """PID 1's end of NOTIFY_SOCKET: hears of readiness, and keeps descriptors."""

    def __init__(self, path):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self.socket.bind(path)
        self.ready = threading.Event()
        self.store = {}
        self.start()

    def run(self):
        while True:
            data, control, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(64 * 4))
            if data == b'end':
                return
            fields = dict(line.split('=', 1) for line in data.decode(errors='replace').splitlines() if '=' in line)
            fds = array.array('i')
            for level, kind, what in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    fds.frombytes(what[:len(what) // 4 * 4])
            if fields.get('FDSTORE') == '1':
                self.store.setdefault(fields.get('FDNAME'), []).extend(fds)
            else:
                for fd in fds:
                    os.close(fd)
            if fields.get('FDSTOREREMOVE') == '1':
                for fd in self.store.pop(fields.get('FDNAME'), []):
                    os.close(fd)
            if fields.get('READY') == '1':
                self.ready.set()

    def end(self):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.sendto(b'end', self.socket.getsockname())
        self.join(5)
        for fds in self.store.values():
            for fd in fds:
                os.close(fd)
        self.socket.close()


class Program:
    """An instrumented program that does what it is told."""

    def __init__(self, town):
        self.process = subprocess.Popen([town.build / 'tests/integration/daemon/subject-daemon'], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=die_with_parent,
                                        env=dict(os.environ, TRACER_RUNTIME_DIR=str(town.runtime)))
        self.recorded = 0
        self.process.stdout.readline()

    def record(self, n):
        self.process.stdin.write(f'record {n}\n')
        self.process.stdin.flush()
        self.recorded += n
        if self.process.stdout.readline() != f'recorded {self.recorded}\n':
            raise Wrong('a program that records is no longer there')

    def end(self, line=None):
        if self.process.poll() is None and line:
            self.process.stdin.write(line + '\n')
            self.process.stdin.flush()
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(PATIENCE)


def events_in(path):
    """babeltrace2 is the judge of files."""
    r = subprocess.run(['babeltrace2', str(path)], capture_output=True, text=True, errors='replace')
    if r.returncode or 'ERROR' in r.stderr:
        raise Wrong(f'babeltrace2 cannot read {path}: {r.stderr.strip()[:600]}')
    if 'WARNING' in r.stderr and 'discarded' not in r.stderr:
        raise Wrong(f'babeltrace2 says of {path}: {r.stderr.strip()[:600]}')
    return r.stdout.count('\n')


class Town:
    base = None   # a directory that who sets it removes, also of towns that were ended half way

    def __init__(self, build, wish=None):
        """wish: (step, number, nth, errno), or None: all calls are counted"""
        self.build, self.wish = pathlib.Path(build), wish
        self.directory = pathlib.Path(tempfile.mkdtemp(dir=Town.base))
        self.runtime, self.state = self.directory / 'run', self.directory / 'state'
        self.backing, self.config = self.directory / 'backing', self.directory / 'tracer.conf'
        self.backing.mkdir()
        self.page = Page(str(self.directory / 'page'))
        self.log_path = self.directory / 'log'
        self.systemd = Systemd(str(self.directory / 'notify'))
        self.address = f'unix:path={self.directory}/bus'
        self.programs, self.injector, self.bus = [], None, None
        self.refusals, self.n_refused, self.n_lost = [], 0, 0
        self.bus_daemon = self.bus_start()
        self.now = NO_STEP
        self.page.step(NO_STEP)

    def bus_start(self):
        policy = "<policy context='default'><allow user='*'/><allow own='*'/>" \
            "<allow send_destination='*' eavesdrop='true'/><allow eavesdrop='true'/></policy>"
        path = self.directory / 'bus.conf'
        path.write_text(f'<busconfig><type>custom</type><listen>{self.address}</listen><auth>EXTERNAL</auth>'
                        f'{policy}</busconfig>')
        process = subprocess.Popen(['dbus-daemon', f'--config-file={path}', '--nofork', '--print-address'],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
        process.stdout.readline()
        return process

    # ---- the daemon

    def launch(self):
        command = [self.build / 'tests/faults/injector', self.page.path]
        if self.wish:
            command += [str(w) for w in self.wish]
        command += ['--', self.build / 'daemon/tracerd', '--user', '--address', self.address, '--runtime-directory',
                    self.runtime, '--state-directory', self.state, '--config', self.config]
        environment = {'PATH': os.environ['PATH'], 'HOME': str(self.directory), 'LANG': 'C.UTF-8',
                       'DBUS_SESSION_BUS_ADDRESS': self.address, 'NOTIFY_SOCKET': str(self.directory / 'notify')}
        with open(self.log_path, 'wb') as log:
            self.injector = subprocess.Popen(command, stderr=log, stdout=log, stdin=subprocess.DEVNULL,
                                             env=environment, preexec_fn=die_with_parent)

    def log(self):
        return self.log_path.read_text(errors='replace') if self.log_path.exists() else ''

    def alive(self):
        return not self.page.head()['ended'] and self.injector.poll() is None

    def check_alive(self):
        if not self.alive():
            raise Wrong(f'the daemon ended: {self.how_it_ended()}')
        return False

    def how_it_ended(self):
        status = self.page.head()['status']
        return f'signal {os.WTERMSIG(status)}' if os.WIFSIGNALED(status) else f'status {os.WEXITSTATUS(status)}'

    def struck(self):
        return self.page.head()['outcome'] == 'done'

    @contextlib.contextmanager
    def step(self, n):
        self.now = n
        self.page.step(n)
        yield
        self.now = NO_STEP
        self.page.step(NO_STEP)

    @contextlib.contextmanager
    def judging(self):
        """What the judge asks is no part of the step."""
        self.page.step(NO_STEP)
        yield
        self.page.step(self.now)

    # ---- the bus

    def connect(self):
        if not self.bus:
            self.bus = dbus.bus.BusConnection(self.address)
            self.bus.set_exit_on_disconnect(False)
        until(lambda: self.check_alive() or self.bus.name_has_owner(NAME), 'the daemon has no name on the bus')

    def call(self, member, signature='', *arguments, path=PATH, interface=MANAGER):
        begin = time.monotonic()
        try:
            return self.bus.call_blocking(NAME, path, interface, member, signature, arguments, timeout=PATIENCE)
        except dbus.DBusException as e:
            name = e.get_dbus_name()
            if time.monotonic() - begin >= PATIENCE:
                raise Wrong(f'{member} was not answered within {PATIENCE} s') from e
            self.check_alive()
            if name in LOST:
                raise Lost(f'{member}: {e}') from e
            raise Refused(name, e.get_dbus_message()) from e

    def ask(self, member, *rest, already=(), afterwards=(), reasons=(), **more):
        """A call that must do what it says, or fail in words that make sense, once, for the one thing that failed. It may be
        done already if its answer was lost; `afterwards` is what it may say because the first time did a part of it."""
        while True:
            try:
                return self.call(member, *rest, **more)
            except Lost as e:
                self.lost(e)
            except Refused as e:
                if self.n_lost and e.name in {ERROR + a for a in already}:
                    return None
                if self.n_refused and e.name in {ERROR + a for a in afterwards}:
                    return None
                self.refused(f'{member}: {e}')
                if e.name not in SENSIBLE | {ERROR + r for r in reasons}:
                    raise Wrong(f'{member} failed with {e}') from e

    def refused(self, what):
        self.refusals.append(what)
        self.n_refused += 1
        if not self.struck() or self.n_refused > 1:
            raise Wrong(f'refused, although nothing failed {"again" if self.struck() else "at all"}: {what}')

    def lost(self, what):
        self.refusals.append(str(what))
        self.n_lost += 1
        if not self.struck() or self.n_lost > 2:
            raise Wrong(f'the bus was lost, although nothing failed {"again" if self.struck() else "at all"}: {what}')
        self.connect()

    def look(self, *rest, **more):
        """As the judge reads."""
        with self.judging():
            while True:
                try:
                    return self.call(*rest, **more)
                except Lost as e:
                    self.lost(e)

    def properties(self, session):
        return self.look('GetAll', 's', SESSION, path=f'{PATH}/session/{session}', interface=PROPERTIES)

    def producers(self):
        return {int(p['pid']): p for p in self.look('ListProducerDetails')}

    # ---- what is left

    def belongings(self):
        """Descriptors, mappings and threads of the daemon, by what they are, without what differs by chance."""
        pid = self.page.head()['pid']
        root = pathlib.Path('/proc', str(pid))

        def plain(text):
            text = text.replace(str(self.directory), 'TOWN')
            return re.sub(r'[0-9]+', 'N', text.replace(' (deleted)', ''))

        found = {}
        for fd in (root / 'fd').iterdir():
            with contextlib.suppress(FileNotFoundError):
                key = 'fd ' + plain(os.readlink(fd))
                found[key] = found.get(key, 0) + 1
        for line in (root / 'maps').read_text().splitlines():
            words = line.split(None, 5)
            name = words[5] if len(words) > 5 else ''
            # the heap is the allocator's, and libraries are loaded when they are needed
            if words[1][3] == 's':
                key = f'map {words[1]} {plain(name)}'
                found[key] = found.get(key, 0) + 1
        found['threads'] = len(list((root / 'task').iterdir()))
        for name in self.systemd.store:
            key = 'store ' + plain(name)
            found[key] = found.get(key, 0) + 1
        return found

    def half_done(self):
        return [str(p.relative_to(self.directory)) for p in self.directory.rglob('.*') if p.name.endswith('.tmp')]

    def close(self):
        for p in self.programs:
            p.process.kill()
            p.end()
        if self.bus:
            self.bus.close()
        if self.injector:
            self.injector.kill()   # and its program with it
            self.injector.wait()
        self.bus_daemon.kill()
        self.bus_daemon.wait()
        self.bus_daemon.stdout.close()
        self.systemd.end()
        shutil.rmtree(self.directory, ignore_errors=True)
