/* SPDX-License-Identifier: MIT */
/* Which CPUs there are, and which ring each one has. Rings are dense: the n-th CPU that was ever seen
 * online has ring n, so that a region holds no memory for CPUs that may exist one day. */
#pragma once

#include "lib/abi.h"
#include "lib/base.h"

typedef struct {
	u32 n_possible;		     /* rings a region has addresses for */
	u32 n_rings;		     /* rings given to CPUs so far */
	u16 ring_of[ABI_MAX_CPUS];   /* ABI_NO_RING: none yet */
	u32 cpu_of[ABI_MAX_CPUS];    /* of ring i < n_rings */
} Cpus;

/* A list as in /sys/devices/system/cpu/online: "0-3,8". Sets a bit per CPU; CPUs of ABI_MAX_CPUS and more are left
 * out (they record into side rings). 0 or -EINVAL. */
int cpus_parse(const char *list, u64 ret[ABI_MAX_CPUS / 64]);

/* Where the kernel lists CPUs; tests put theirs here. */
extern const char *cpus_directory;

/* Reads possible and online CPUs of this machine and gives each online one a ring. 0 or -errno. */
int cpus_init(Cpus *ret);
/* Rings as an earlier daemon of this boot gave them out: ring i is CPU cpu_of[i]'s. Before anything looks. -EINVAL: it cannot be. */
int cpus_adopt(Cpus *c, const u32 *cpu_of, u32 n);
/* CPUs that came online since: at most n of them into cpus[], without giving them a ring. */
u32 cpus_appeared(const Cpus *c, u32 *cpus, u32 n);
/* Gives the next ring to a CPU, or -ENOSPC. */
int cpus_add(Cpus *c, u32 cpu);
