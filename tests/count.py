# SPDX-License-Identifier: MIT
"""Counts what ./check ran: every sub-test that its log names, what was skipped and why, what failed. The last
line is "N passed, N failed"; the exit code is 0 only if something passed and nothing failed."""
import json
import os
import pathlib
import re
import sys

LINE = re.compile(r'^(not )?ok\b\s*\d*\s*-?\s*([^#]*?)\s*(?:#\s*(SKIP|TODO)\b[\s:]*(.*))?$', re.I)
passed, failed, skipped, per_run = 0, [], [], []


def sub_tests(text):
    """(ok, name, directive, reason) of each test point; those of a nested test are indented and belong to it."""
    for line in text.splitlines():
        m = LINE.match(line)
        if m:
            yield m.group(1) is None, m.group(2), (m.group(3) or '').upper(), m.group(4) or ''


for log in sorted(pathlib.Path(sys.argv[1]).glob('*.json')):
    n_passed, n_failed = passed, len(failed)
    for line in log.read_text().splitlines():
        test = json.loads(line)
        name, result = test['name'], test['result']
        bad = 0
        points = list(sub_tests(test.get('stdout', '')))
        for ok, point, directive, reason in points:
            if directive == 'SKIP':
                skipped.append((log.stem, point or name, reason))
            elif directive == 'TODO':
                skipped.append((log.stem, point or name, 'known to be incomplete: ' + reason))
            elif ok:
                passed += 1
            else:
                bad += 1
                failed.append((log.stem, point or name))
        if result == 'SKIP' and not points:
            skipped.append((log.stem, name, test.get('stdout', '').strip()[-200:]))
        elif result in ('OK', 'EXPECTEDFAIL'):
            passed += not points
        elif result != 'SKIP' and not bad:
            # it crashed, hung or broke its plan; whatever it said before does not make up for that
            failed.append((log.stem, f'{name} ({result})'))
    per_run.append((log.stem, passed - n_passed, len(failed) - n_failed))

n_passed, n_failed = passed, len(failed)
for ok, name, _, _ in sub_tests((pathlib.Path(sys.argv[1]) / 'singles').read_text()):
    if ok:
        passed += 1
    else:
        failed.append(('build', name))
per_run.append(('builds', passed - n_passed, len(failed) - n_failed))

for name, good, bad in per_run:
    print(f'{name:28} {good:6} passed {bad:4} failed')
if skipped:
    print('\nskipped:')
    for reason in sorted({r for _, _, r in skipped}):
        names = [f'{run}: {name}' for run, name, r in skipped if r == reason]
        print(f'  {reason or "no reason given"}')
        for name in names[:8]:
            print(f'      {name}')
        if len(names) > 8:
            print(f'      and {len(names) - 8} more')
if failed:
    print('\nfailed:')
    for run, name in failed:
        print(f'  {run}: {name}')
print(f'\n{passed} passed, {len(failed)} failed')
sys.exit(0 if passed and not failed else 1)
