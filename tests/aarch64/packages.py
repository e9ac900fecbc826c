# SPDX-License-Identifier: MIT
"""Packages of the other architecture, in a folder of their own: apt with its own state, the machine's own sources and
keys. Nothing of the machine's configuration changes, and nothing is installed on it."""
import hashlib
import os
import pathlib
import shutil
import subprocess

ARCHITECTURE = 'arm64'
TRIPLET = 'aarch64-linux-gnu'
# with all that they depend on: what runs in there
RUN = ['busybox-static', 'bash', 'dbus-daemon', 'dbus-bin', 'libglib2.0-0', 'libsystemd0', 'libconfig9', 'babeltrace2',
       'e2fsprogs', 'mount']
# alone: what is linked against here (their tools would be the other architecture's)
BUILD = ['libglib2.0-dev', 'libpcre2-dev', 'libffi-dev', 'libsystemd-dev', 'libconfig-dev']
KERNEL = 'linux-image-arm64'

# of this machine's own architecture: installed on it where they are missing
TOOLS = {
    'qemu-system-aarch64': 'qemu-system-arm',
    TRIPLET + '-gcc': 'gcc-aarch64-linux-gnu libc6-dev-arm64-cross',
    'meson': 'meson',
    'ninja': 'ninja-build',
    'pkg-config': 'pkg-config',
    'gcc': 'gcc libc6-dev',
}

CONFIGURATION = '''
Dir::State "{at}/state";
Dir::State::status "{at}/status";
Dir::Cache "{at}/cache";
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
#clear APT::NeverAutoRemove;
'''


def install_tools():
    missing = [p for tool, names in TOOLS.items() if not shutil.which(tool) for p in names.split()]
    if not missing:
        return
    if os.geteuid() != 0:
        raise OSError('some tools are missing; as root: apt-get install ' + ' '.join(missing))
    environment = os.environ | {'DEBIAN_FRONTEND': 'noninteractive'}
    for command in (['update'], ['install', '-y', '--no-install-recommends', *missing]):
        subprocess.run(['apt-get', '-q', *command], check=True, env=environment)


class Packages:
    def __init__(self, where):
        self.at = pathlib.Path(where).resolve() / 'apt'
        self.root = self.at.parent / 'root'
        self.archives = self.at / 'cache/archives'

    def apt(self, tool, *arguments, **options):
        return subprocess.run([tool, '-q', '-c', self.at / 'apt.conf', *arguments], check=True, text=True, **options)

    def wish(self):
        """Changes when what is asked for does; then everything is made again."""
        return hashlib.sha256(repr((RUN, BUILD, KERNEL, CONFIGURATION)).encode()).hexdigest()

    def is_there(self):
        stamp = self.root / 'stamp'
        return stamp.exists() and stamp.read_text() == self.wish()

    def make(self):
        """The root: what all the packages hold, and no script of theirs run."""
        if self.is_there():
            return
        shutil.rmtree(self.at, ignore_errors=True)
        shutil.rmtree(self.root, ignore_errors=True)
        for below in ('state/lists/partial', 'cache/archives/partial'):
            (self.at / below).mkdir(parents=True)
        (self.at / 'status').touch()
        (self.at / 'apt.conf').write_text(CONFIGURATION.format(at=self.at, architecture=ARCHITECTURE))
        self.apt('apt-get', 'update')
        self.apt('apt-get', 'install', '--download-only', '-y', *RUN)
        kernel = self.apt('apt-cache', 'depends', '--important', KERNEL, stdout=subprocess.PIPE).stdout
        kernel = [line.split()[-1] for line in kernel.splitlines() if 'Depends: linux-image-' in line]
        self.apt('apt-get', 'download', *BUILD, *kernel, cwd=self.archives)
        self.extract()
        (self.root / 'stamp').write_text(self.wish())

    def extract(self):
        for directory in ('bin', 'sbin', 'lib'):
            (self.root / 'usr' / directory).mkdir(parents=True)
            (self.root / directory).symlink_to('usr/' + directory)
        for package in sorted(self.archives.glob('*.deb')):
            unpack = subprocess.Popen(['dpkg-deb', '--fsys-tarfile', package], stdout=subprocess.PIPE)
            subprocess.run(['tar', '-x', '--keep-directory-symlink', '--no-same-owner', '-C', self.root,
                            '--exclude=./usr/share/doc', '--exclude=./usr/share/locale', '--exclude=./usr/share/man',
                            '--exclude=./var/lib/dpkg'],
                           stdin=unpack.stdout, check=True)
            if unpack.wait():
                raise OSError(f'{package}: not readable')
        # a link that begins at / would be one into this machine
        for at, directories, files in os.walk(self.root):
            for name in directories + files:
                path = pathlib.Path(at, name)
                if path.is_symlink() and os.readlink(path).startswith('/'):
                    target = self.root / os.readlink(path).lstrip('/')
                    path.unlink()
                    path.symlink_to(os.path.relpath(target, path.parent))
