/* SPDX-License-Identifier: MIT */
/* Who a caller is, as the bus daemon has it from the kernel. */
#pragma once

#include <sys/types.h>
#include <systemd/sd-bus.h>

#include "lib/base.h"

/* Reads the reply to GetConnectionCredentials: the user, and whether the named group is among the caller's. 0, -ENODATA (the
 * bus does not know the user), or what reading gives. */
int credentials_read(sd_bus_message *reply, const char *group_name, uid_t *ret_uid, bool *ret_in_group);
