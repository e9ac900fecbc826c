#!/bin/sh
# SPDX-License-Identifier: MIT
# names.sh COMPILER...: the system calls of this machine, as rows of a C table
echo '#include <sys/syscall.h>' | "$@" -E -dM - | sed -n 's/^#define __NR_\([a-z0-9_]*\) .*/\t{ "\1", __NR_\1 },/p' | sort
