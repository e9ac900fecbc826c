/* SPDX-License-Identifier: MIT */
/* The control page of this process: mapped read-only by the constructor, for good. Where there is
 * none that may be believed, a page of zeros stands in and nothing is ever wanted. */
#pragma once

#include "lib/abi.h"
#include "lib/base.h"

/* Never NULL. */
extern const struct abi_control_page *control_page __attribute__((visibility("hidden")));

/* Maps the page and prepares the process, once; later calls do nothing. Called by our constructor,
 * and by the first event that is registered, should that be sooner. */
void control_open(void);

/* $RUNTIME/producer.sock as it was named when the page was opened; "" where there is no page. */
const char *control_socket(void);

/* How long an exchange with the daemon may take, in ns: 200 ms, or what TRACER_ATTACH_TIMEOUT said when the page was opened. */
u64 control_timeout(void);

/* Opens, checks and maps DIRECTORY/control. `builtin`: the directory is the one compiled in.
 * Returns 0, or -errno: -EBADMSG (no control page of ours), -EPERM (its owner may not tell this
 * process what to do), -EPROTONOSUPPORT (another major). */
int control_map(const char *directory, bool builtin, const struct abi_control_page **ret);
