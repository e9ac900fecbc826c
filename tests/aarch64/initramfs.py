# SPDX-License-Identifier: MIT
"""What the kernel unpacks first: a shell, the modules that reach this machine's folders, and the script that goes on
from them."""
import os
import pathlib
import re

MODULES = ['virtio_mmio', 'virtio_console', '9pnet_virtio', '9p', 'loop', 'crc32c_generic', 'ext4']


def dependencies(path):
    """What a module says of itself: the names of those that must be there first."""
    found = re.search(rb'\0depends=([^\0]*)\0', path.read_bytes())
    return [name for name in (found.group(1).decode().split(',') if found else []) if name]


def modules(root):
    """Files in the order they can be loaded in."""
    paths = {p.stem.replace('-', '_'): p for p in sorted((root / 'lib/modules').rglob('*.ko'))}
    order = []

    def add(name):
        path = paths.get(name.replace('-', '_'))
        if path and path not in order:  # else it is in the kernel
            for needed in dependencies(path):
                add(needed)
            order.append(path)

    for name in MODULES:
        add(name)
    return order


class Archive:
    """The format that the kernel reads (`newc`): everything is root's, and nothing is older or newer."""

    def __init__(self):
        self.parts, self.number = [], 0

    def add(self, name, data=b'', mode=0o100755, device=(0, 0)):
        self.number += 1
        raw = name.encode() + b'\0'
        fields = (self.number, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(raw), 0)
        head = b'070701' + b''.join(b'%08x' % f for f in fields) + raw
        for part in (head, data):
            self.parts.append(part + bytes(-len(part) % 4))

    def bytes(self):
        self.add('TRAILER!!!', mode=0)
        return b''.join(self.parts)


def make(root, scripts, to):
    """`scripts`: where init lies. The archive goes into the file `to`."""
    archive, order = Archive(), modules(root)
    for directory in ('bin', 'dev', 'modules', 'new', 'proc', 'sys'):
        archive.add(directory, mode=0o40755)
    archive.add('dev/console', mode=0o20600, device=(5, 1))
    archive.add('bin/busybox', (root / 'bin/busybox').read_bytes())
    archive.add('bin/sh', b'busybox', 0o120777)
    archive.add('init', (scripts / 'init').read_bytes())
    for path in order:
        archive.add('modules/' + path.name, path.read_bytes(), 0o100644)
    archive.add('modules/order', ''.join(p.name + '\n' for p in order).encode(), 0o100644)
    temporary = pathlib.Path(f'{to}.new')
    temporary.write_bytes(archive.bytes())
    os.replace(temporary, to)
