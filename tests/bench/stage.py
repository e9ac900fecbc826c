# SPDX-License-Identifier: MIT
"""What a part of tests/bench/run stands on: the daemons, the programs, how long everything may take, and the account of what did
not add up."""
import os
import shutil
import subprocess
import sys
import time

from daemons import Tracer, sh


class Stage:
    def __init__(self, options, work, lttng):
        self.options = options
        self.build = options.build
        self.work = work
        self.lttng = lttng  # None: tracer alone
        self.faults = []

    def tracer(self, clock=None):
        """For `with`."""
        return Tracer(self.work, self.build, clock or self.options.clocks[0])

    def program(self, name):
        return f"{self.build}/tests/bench/{name}"

    def clear(self, name):
        """What LTTng wrote for a session."""
        shutil.rmtree(f"{self.work}/{name}", ignore_errors=True)

    def sides(self):
        """What a program that is built once for each side is to be run as."""
        return ("lttng", "tracer") if self.lttng else ("tracer",)

    def agree(self, what, *numbers):
        """Numbers that say the same thing in other words; a difference fails the run, when all of it is done."""
        if len(set(numbers)) != 1:
            self.faults.append(f"{what}: {' and '.join(map(str, numbers))} should be one number")

    def patiently(self, measure):
        """For programs that cannot be greeted, since how they attach is what is measured: a machine that is busy enough makes them
        give up on their daemon (after 200 ms), and then nobody hears of what they call. That is tried again, and said."""
        for turn in range(5):
            before = len(self.faults)
            result = measure()
            if len(self.faults) == before or turn == 4:
                return result
            print("again: " + "; ".join(self.faults[before:]), file=sys.stderr)
            del self.faults[before:]

    def run(self, tracer, name, *args):
        return sh(self.program(name), *map(str, args), env=tracer.env)

    def talk(self, tracer, name, *args):
        """A program that is spoken with by lines."""
        return Talk([self.program(name), *map(str, args)], tracer.env)

    def greet(self, tracer, name, *args, side="tracer", processes=1):
        """One that greets (see side.h): when this returns it is attached to whatever session there is, and it has been told to go.
        A machine that is busy enough makes a program give up on its daemon; what it calls then nobody hears of, until there is
        something new to ask for."""
        if side != "tracer":  # it has nothing to wait for
            program = self.talk(tracer, name, *args)
            program.hear()
            program.say("go")
            return program
        hellos = [("hello", "bench:hello"), ("hello-too", "bench:hello_too")][:processes]
        for session, event in hellos:
            tracer.create(session, False, f"{80 * os.cpu_count() + 136}K", event)
        program = self.talk(tracer, name, *args)
        program.hear()
        deadline, turn = time.monotonic() + 60, 0
        while not all(tracer.properties(session)["recorded"] for session, _ in hellos):
            if time.monotonic() > deadline:
                raise SystemExit(f"bench: {name} was not heard in a minute\n{tracer.said()}")
            turn += 1
            if turn % 4 == 0:
                tracer.ctl("set-events", "hello", "bench:hello", f"bench:turn_{turn}")
            program.say("again")
            program.hear()
        program.say("go")
        return program

    def ungreet(self, tracer, side="tracer", processes=1):
        """When it has ended."""
        if side != "tracer":
            return
        for session in ("hello", "hello-too")[:processes]:
            tracer.remove(session)


class Talk:
    def __init__(self, command, env):
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        self.pid = self.process.pid

    def hear(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"bench: {' '.join(self.command)} ended too early: status {self.process.wait()}")
        return line.split()

    def say(self, line=""):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self):
        """Ends its input; returns what else it says."""
        out, _ = self.process.communicate()
        if self.process.returncode:
            raise SystemExit(f"bench: {' '.join(self.command)}: status {self.process.returncode}")
        return out
