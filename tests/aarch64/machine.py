# SPDX-License-Identifier: MIT
"""An emulated machine: boots it, passes work on to it, and ends it. Work comes by a socket, from tests/aarch64/inside."""
import json
import os
import pathlib
import shlex
import socket
import subprocess
import threading

import initramfs

BOOT_SECONDS = 300


class MachineError(Exception):
    pass


class Machine:
    def __init__(self, where, project, built, cpu, n_cpus, accelerator):
        self.at = pathlib.Path(where).resolve()
        self.project = pathlib.Path(project).resolve()
        self.built = pathlib.Path(built).resolve().relative_to(self.project)
        self.exchange = self.at / 'exchange'
        self.cpu, self.n_cpus, self.accelerator = cpu, n_cpus, accelerator
        self.lock = threading.Lock()
        self.waiting, self.number, self.dead = {}, 0, False
        self.ready = threading.Event()
        self.qemu, self.port = None, socket.socket(socket.AF_UNIX)

    def command(self, kernel):
        share = []
        for tag, path, rights in (('root', self.at / 'root', ',readonly=on'), ('project', self.project, ',readonly=on'),
                                  ('exchange', self.exchange, '')):
            share += ['-fsdev', f'local,id={tag},path={path},security_model=none{rights}',
                      '-device', f'virtio-9p-device,fsdev={tag},mount_tag={tag}']
        return ['qemu-system-aarch64', '-M', 'virt', '-cpu', self.cpu, '-smp', str(self.n_cpus), '-m', '2048',
                *self.accelerator, '-nodefaults', '-no-user-config', '-no-reboot', '-display', 'none',
                '-serial', 'file:console', '-kernel', str(kernel), '-initrd', 'initramfs',
                '-append', f'console=ttyAMA0 loglevel=4 panic=-1 project={self.project} built={self.built}',
                '-chardev', 'socket,id=port,path=port,server=on,wait=off',
                '-device', 'virtio-serial-device', '-device', 'virtserialport,chardev=port,name=port', *share]

    def boot(self):
        self.exchange.mkdir(exist_ok=True)
        for left in self.exchange.iterdir():
            left.unlink()
        root = self.at / 'root'
        (root / str(self.project).lstrip('/')).mkdir(parents=True, exist_ok=True)
        for directory in ('usr/local/bin', 'dev', 'proc', 'sys', 'run', 'tmp', 'var', 'root', 'etc'):
            (root / directory).mkdir(parents=True, exist_ok=True)
        (root / 'etc/passwd').write_text('root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/false\n')
        (root / 'etc/group').write_text('root:x:0:\nnogroup:x:65534:\n')
        (root / 'etc/machine-id').write_text('0123456789abcdef0123456789abcdef\n')
        if not (root / 'bin/sh').exists():
            (root / 'bin/sh').symlink_to('busybox')
        initramfs.make(root, self.project / 'tests/aarch64', self.at / 'initramfs')
        kernel = sorted((root / 'boot').glob('vmlinuz-*'))[-1]
        for name in ('port', 'requests'):
            (self.at / name).unlink(missing_ok=True)
        os.chdir(self.at)  # the path of a socket must be short
        self.qemu = subprocess.Popen(self.command(kernel), stdin=subprocess.DEVNULL)
        while True:
            try:
                self.port.connect('port')
                break
            except (FileNotFoundError, ConnectionRefusedError):
                if self.exited(0.05):
                    raise MachineError('the emulator did not start')
        threading.Thread(target=self.listen_port, daemon=True).start()
        if not self.ready.wait(BOOT_SECONDS) or self.dead:
            raise MachineError('the machine did not boot; its console:\n' + self.console())
        listener = socket.socket(socket.AF_UNIX)
        listener.bind('requests')
        listener.listen(16)
        threading.Thread(target=self.listen_requests, args=(listener,), daemon=True).start()

    def exited(self, seconds):
        try:
            self.qemu.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    def __enter__(self):
        try:
            self.boot()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_):
        self.end()

    def console(self):
        try:
            return (self.at / 'console').read_text(errors='replace')
        except FileNotFoundError:
            return ''

    def listen_port(self):
        for line in self.port.makefile():
            words = line.split()
            if words == ['ready']:
                self.ready.set()
            elif len(words) == 2:
                with self.lock:
                    work = self.waiting.pop(int(words[0]), None)
                if work:
                    work['status'] = int(words[1])
                    work['over'].set()
        with self.lock:
            self.dead = True
            for work in self.waiting.values():
                work['over'].set()
        self.ready.set()

    def listen_requests(self, listener):
        while True:
            s, _ = listener.accept()
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def say(self, line):
        with self.lock:
            self.port.sendall(line.encode() + b'\n')

    def serve(self, s):
        """One request: {directory, arguments, environment}; the answer is the number of its output and the status."""
        asked = json.loads(s.makefile().readline())
        with self.lock:
            self.number += 1
            number = self.number
            work = self.waiting[number] = {'over': threading.Event(), 'status': None}
            if self.dead:
                work['over'].set()
        script = [f'export {shlex.quote(f"{k}={v}")}' for k, v in asked['environment'].items()]
        script += [f'cd {shlex.quote(asked["directory"])}', 'exec ' + shlex.join(asked['arguments'])]
        (self.exchange / f'{number}.sh').write_text('\n'.join(script) + '\n')
        if not work['over'].is_set():
            self.say(f'run {number}')

        def gone():
            # it sends nothing more: this returns when it has ended, or was killed
            if not s.recv(1) and not work['over'].is_set():
                self.say(f'kill {number}')
        threading.Thread(target=gone, daemon=True).start()
        work['over'].wait()
        try:
            s.sendall(json.dumps({'number': number, 'status': work['status']}).encode() + b'\n')
        except BrokenPipeError:
            pass
        s.shutdown(socket.SHUT_WR)

    def end(self):
        try:
            self.say('end')
        except OSError:  # it is gone, or was never there
            pass
        if self.qemu and not self.exited(30):
            self.qemu.kill()
            self.qemu.wait()
