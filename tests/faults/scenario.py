# SPDX-License-Identifier: MIT
"""What the daemon does while one of its calls fails, and what must be true whatever failed."""
import os
import pathlib
import re
import signal
import time

from town import ERROR, MANAGER, PATH, PATIENCE, PROPERTIES, SESSION, Lost, Refused, Town, Wrong, events_in, until
from town import Program

STEPS = ['start', 'attach', 'snapshot', 'rotate', 'reload', 'create', 'crash', 'ask', 'back', 'stop', 'remove', 'end']

COMMON = 'memory = "1M"; events = [ "shop:*" ]; autostart = true;'
WRITES = COMMON + ' policy = "discard"; output_keep_free = "0";'
CONFIG = '''sessions: {
  flight: { %(COMMON)s snapshot: { keep_free = "0"; }; };
  audit:  { %(WRITES)s io = "auto"; flush_interval = "20ms"; };
  mapped: { %(WRITES)s io = "mmap"; flush_interval = "1h"; };
  backed: { %(COMMON)s backing = "%(backing)s"; sync_interval = "20ms"; snapshot: { on_crash = false; keep_free = "0"; }; };
  %(more)s
};
'''
USUAL = re.compile(r' started| stopped|no longer configured|: trace /|: snapshot /|^tracerd: [0-9]+ subject|writing goes on')
GONE = 'gone: { autostart = false; };'
# for what goes by itself, as threads do, or is looked at every five seconds
LEAK_PATIENCE = 8
WARM_PATIENCE = 4
LATE = 'late: { %s io = "splice"; flush_interval = "20ms"; };' % WRITES


class Scenario(Town):
    def configure(self, more):
        self.config.write_text(CONFIG % {'COMMON': COMMON, 'WRITES': WRITES, 'backing': self.backing, 'more': more})

    def run(self, usual=None):
        """The belongings before the end, which must be the usual ones if there are such; None if it did not start, as it may
        if something failed before it was ready. Raises Wrong."""
        self.base = {}     # session: what had been recorded when it began
        self.n_told = 0    # by all programs together
        self.missed = {}   # pid: what it says that it could not record
        self.unsaid = {}   # session: what nobody lives to say
        self.configure(GONE)
        left = None
        for n, name in enumerate(STEPS):
            if name == 'remove':
                self.still_works()
            if name == 'end':
                left = self.nothing_left(usual)
            with self.step(n):
                if getattr(self, 'step_' + name)() == 'no start':
                    return None
        return left

    # ---- steps

    def step_start(self):
        self.launch()
        until(lambda: self.systemd.ready.is_set() or not self.alive(), 'the daemon is not ready')
        if not self.systemd.ready.is_set() and not self.alive():
            status = self.page.head()['status']
            if os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0 or not self.log().strip():
                raise Wrong(f'before it was ready the daemon ended with {self.how_it_ended()}: {self.log()}')
            if not self.struck():
                raise Wrong(f'the daemon did not start: {self.log()}')
            return 'no start'
        self.connect()
        for s in ('flight', 'audit', 'mapped', 'backed'):
            self.begun(s)
        return None

    def begun(self, session):
        """A session that was to start by itself and could not is startable now, and said why."""
        if self.properties(session)['State'] != 'running':
            if not self.struck() or not self.complaints(f"'{session}'"):
                raise Wrong(f'session {session} does not run and the log does not say why')
            with self.judging():
                self.call('StartSession', 's', session)
        self.base[session] = self.n_told

    def tell(self, program, n):
        program.record(n)
        self.n_told += n

    def step_attach(self):
        self.steady, self.victim = Program(self), Program(self)
        self.programs += [self.steady, self.victim]
        self.warm(self.steady, 'flight')
        self.warm(self.victim, 'flight')
        self.tell(self.steady, 1000)
        self.tell(self.victim, 500)
        self.look_at_missed()

    def warm(self, program, session):
        """Until the program records into the session. It waits 200 ms for an answer, which a machine with much to do does not
        always give; then it comes again when it is asked to. What failed in the daemon is not tried again before sessions
        change: no program is asked in vain for ever."""
        end = time.monotonic() + (WARM_PATIENCE if self.struck() else PATIENCE)
        while time.monotonic() < end:
            n = self.recorded(session)
            self.tell(program, 1)
            if self.recorded(session) > n:
                return
            time.sleep(0.01)
        if not self.struck():
            raise Wrong(f'a program does not come to record into {session}')
        if program is self.victim:
            self.unsaid[session] = 10 ** 6

    def look_at_missed(self):
        for pid, p in self.producers().items():
            self.missed[pid] = int(p['missed'])

    def step_snapshot(self):
        self.snapshot('flight')

    def snapshot(self, session):
        before = set(self.snapshots(session))
        path = self.ask('SnapshotSession', 'ssa{sv}', session, 'because', {})
        if path is None:
            return
        p = self.properties(session)
        n, kept = events_in(path), int(p['Recorded']) - int(p['Overwritten'])
        if n != kept:
            raise Wrong(f'{path} has {n} events of {kept}')
        # of an attempt that failed nothing is left; one whose answer was lost is whole
        for other in set(self.snapshots(session)) - before - {path}:
            if not self.n_lost:
                raise Wrong(f'a snapshot that nobody was told of: {other}')
            events_in(other)

    def snapshots(self, session):
        d = self.state / 'snapshots' / session
        return [str(p) for p in d.iterdir() if not p.name.startswith('.')] if d.exists() else []

    def step_rotate(self):
        path = self.ask('RotateSession', 's', 'audit', already=['NothingRecorded'], afterwards=['NothingRecorded'])
        if path:
            events_in(path)

    def step_reload(self):
        self.configure(LATE)
        self.ask('Reload', reasons=['ConfigInvalid'])   # a file that cannot be read
        with self.judging():
            names = {str(s[0]) for s in self.call('ListSessions')}
        if names != {'flight', 'audit', 'mapped', 'backed', 'late'}:
            raise Wrong(f'after the reload there are {sorted(names)}')
        self.begun('late')
        self.warm(self.steady, 'late')
        self.warm(self.victim, 'late')
        self.tell(self.steady, 200)

    def step_create(self):
        self.ask('CreateSession', 'sa{sv}', 'made', {'io': 'write', 'policy': 'discard', 'memory': '1M',
                                                     'output_keep_free': '0', 'events': ['shop:*']},
                 already=['SessionExists'])
        self.ask('StartSession', 's', 'made', already=['SessionRunning'])
        self.base['made'] = self.n_told
        self.warm(self.steady, 'made')
        self.tell(self.steady, 300)
        self.ask('ConfigureSession', 'sa{sv}', 'made', {'events': ['shop:*', 'other:*']})
        self.tell(self.steady, 30)
        self.stop('made')
        self.ask('RemoveSession', 's', 'made', already=['NoSuchSession'])

    def step_crash(self):
        self.tell(self.victim, 100)
        self.look_at_missed()
        before = set(self.snapshots('flight'))
        self.victim.end('signal 11')
        pid = self.victim.process.pid
        until(lambda: self.check_alive() or pid not in self.producers(), 'a program that died is still listed')
        until(lambda: self.check_alive() or set(self.snapshots('flight')) - before or
              (self.struck() and self.complaints('flight', str(pid))), 'no snapshot of a crash, and not a word')
        for path in set(self.snapshots('flight')) - before:
            events_in(path)

    def complaints(self, *about):
        """Lines of the log that name one of these and say more than that all goes well."""
        return [line for line in self.log().splitlines()
                if any(a in line for a in about) and not USUAL.search(line)]

    def step_ask(self):
        objects = self.ask('GetManagedObjects', path=PATH, interface='org.freedesktop.DBus.ObjectManager')
        if objects is not None and len(objects) < 5:
            raise Wrong(f'GetManagedObjects has {sorted(objects)}')
        for member in ('ListSessions', 'ListProducers', 'ListEvents', 'ListProducerDetails'):
            self.ask(member)
        for s in ('flight', 'audit', 'mapped', 'backed', 'late'):
            path = f'{PATH}/session/{s}'
            self.ask('GetAll', 's', SESSION, path=path, interface=PROPERTIES)
            self.ask('Get', 'ss', SESSION, 'Settings', path=path, interface=PROPERTIES)
            self.ask('Introspect', path=path, interface='org.freedesktop.DBus.Introspectable')
        self.ask('GetAll', 's', MANAGER, interface=PROPERTIES)

    def step_back(self):
        self.tell(self.steady, 50)
        now = time.time_ns() // 1000
        until(lambda: self.check_alive() or int(self.properties('backed')['SyncedUntil']) > now,
              'what was recorded does not come into the backing')

    def step_stop(self):
        for s in ('audit', 'mapped', 'late', 'backed'):
            self.stop(s)

    def step_remove(self):
        for s in ('flight', 'audit', 'mapped', 'late', 'backed'):
            self.ask('RemoveSession', 's', s, already=['NoSuchSession'])

    def step_end(self):
        os.kill(self.page.head()['pid'], signal.SIGTERM)
        until(lambda: not self.alive(), 'the daemon does not end')
        if self.page.head()['status'] != 0:
            raise Wrong(f'asked to end, the daemon ended with {self.how_it_ended()}')
        if self.half_done():
            raise Wrong(f'half done things are left: {self.half_done()}')
        left = [str(p) for p in self.backing.rglob('*') if not p.is_dir()]
        if left and 'cannot be removed' not in self.log():
            raise Wrong(f'the backing of a session that was removed is left: {left}')

    # ---- what must be true

    def stop(self, session):
        """Whatever the answer, it is stopped, and nothing is lost that was not counted."""
        while True:
            try:
                self.call('StopSession', 's', session)
                break
            except Lost as e:
                self.lost(e)
            except Refused as e:
                if not (self.n_lost and e.name == ERROR + 'NotRunning'):
                    self.refused(f'StopSession: {e}')
                    if e.name not in {ERROR + 'NoSpace', ERROR + 'IO', ERROR + 'NoMemory'}:
                        raise Wrong(f'StopSession failed with {e}') from e
                break
        until(lambda: self.properties(session)['State'] == 'stopped', f'session {session} does not stop')
        self.sum(session)

    def sum(self, session):
        p = {k: int(v) for k, v in self.properties(session).items() if isinstance(v, int)}
        io = str(self.properties(session)['IO'])
        told = self.n_told - self.base[session]
        known = p['Recorded'] + p['Discarded']
        if known > told:
            raise Wrong(f'{session}: {known} of {told} records: {p}')
        if known < told:
            self.look_at_missed()
            # what a program could not record at all it counts itself, and says so when it comes the next time, unless it dies
            if told - known > self.missed_at_most() + self.unsaid.get(session, 0):
                raise Wrong(f'{session}: {told} told, {known} known, {self.missed} missed: {p}')
        if io == 'none':
            return
        lost = p['Overwritten'] + p['Unwritten'] + p['Unreadable']
        if p['Written'] + lost != p['Recorded']:
            raise Wrong(f'{session}: {p["Recorded"]} recorded are not {p["Written"]} written and {lost} lost: {p}')
        output = pathlib.Path(str(self.properties(session)['Output']))
        n = events_in(output) if output.exists() and any(output.rglob('metadata')) else 0
        if n != p['Written']:
            raise Wrong(f'{session}: {p["Written"]} are said to be written, {n} are')

    def recorded(self, session):
        return int(self.properties(session)['Recorded'])

    def missed_at_most(self):
        """Who failed to attach says so at its next exchange, which a session that starts makes it have."""
        with self.judging():
            self.call('CreateSession', 'sa{sv}', 'bell', {'events': ['shop:*']})
            self.call('StartSession', 's', 'bell')
            for p in self.programs:
                if p.process.poll() is None:
                    p.record(0)
                    p.record(1)
                    self.n_told += 1
            self.look_at_missed()
            self.call('RemoveSession', 's', 'bell')
        return sum(self.missed.values())

    def still_works(self):
        """Nothing fails any more, so everything succeeds."""
        self.tell(self.steady, 10)
        self.call('CreateSession', 'sa{sv}', 'probe', {'io': 'write', 'policy': 'discard', 'output_keep_free': '0',
                                                       'memory': '1M', 'events': ['shop:*']})
        self.call('StartSession', 's', 'probe')
        self.base['probe'] = self.n_told
        self.warm(self.steady, 'probe')
        if not self.recorded('probe'):
            raise Wrong('a new session does not record')
        before = {s: self.recorded(s) for s in ('flight', 'probe')}
        self.tell(self.steady, 7)
        for s, n in before.items():
            if self.recorded(s) != n + 7:
                raise Wrong(f'{s} does not record all: {n}, then {self.recorded(s)}')
        refusals = self.n_refused + self.n_lost
        self.snapshot('flight')
        self.call('StopSession', 's', 'probe')
        self.sum('probe')
        self.call('RemoveSession', 's', 'probe')
        self.call('Reload')
        self.sum('flight')
        if self.n_refused + self.n_lost != refusals:
            raise Wrong(f'it is refused, although nothing fails: {self.refusals}')

    def nothing_left(self, usual):
        """Without sessions and programs it has what it usually has then. Threads and connections end when they like."""
        for p in self.programs:
            p.end()
        until(lambda: not self.producers(), 'programs that have ended are still listed')
        end, before = time.monotonic() + LEAK_PATIENCE, None
        while True:
            left = self.belongings()
            keys = sorted(k for k in left if usual and left[k] > usual.get(k, 0))
            if not keys if usual else left == before:
                return left
            if time.monotonic() > end and usual:
                raise Wrong('left behind: ' + ', '.join(f'{k}: {left.get(k, 0)} for {usual.get(k, 0)}' for k in keys))
            before = left
            time.sleep(0.01 if usual else 0.3)
