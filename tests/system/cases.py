# SPDX-License-Identifier: MIT
"""Runs cases in order and speaks TAP: one line for each, the machine's own words below a failure."""
import sys
import time
import traceback


class Skip(Exception):
    pass


class Cases:
    def __init__(self, prefix):
        self.prefix = prefix
        self.list = []

    def __call__(self, f):
        self.list.append(f)
        return f

    def without_which_nothing(self, f):
        """A case whose failure ends the run: everything after it would wait in vain."""
        f.vital = True
        return self(f)

    def run(self, machine, only=()):
        chosen = [f for f in self.list if not only or f.__name__ in only]
        print(f'TAP version 13\n1..{len(chosen)}', flush=True)
        failed = 0
        for i, f in enumerate(chosen, 1):
            name = f'{self.prefix}/{f.__name__.replace("_", "-")}'
            mark, begin = machine.journal.mark(), time.monotonic()
            try:
                f(machine)
                print(f'# {time.monotonic() - begin:.2f} s')
                print(f'ok {i} {name}', flush=True)
            except Skip as e:
                print(f'ok {i} {name} # SKIP {e}', flush=True)
            except Exception:
                failed += 1
                for line in traceback.format_exc().splitlines():
                    print(f'# {line}', file=sys.stderr)
                print('# ---- the journal since the case began', file=sys.stderr)
                for line in machine.journal.text(mark)[-60:]:
                    print(f'# {line}', file=sys.stderr)
                print(f'not ok {i} {name}', flush=True)
                if getattr(f, 'vital', False):
                    print(f'Bail out! {name} failed', flush=True)
                    break
        return failed


def refuse(prefix, text, required):
    """The whole suite cannot run here."""
    print('TAP version 13')
    if required:
        print(f'1..1\n# {text}\nnot ok 1 {prefix}')
        sys.exit(1)
    print(f'1..0 # SKIP {text}')
    sys.exit(0)
