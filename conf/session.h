/* SPDX-License-Identifier: MIT */
/* Inside of conf/: the two typed structs as objects. What others may call is in config.h. */
#pragma once

#include "conf/keys.h"

/* Defaults; 0 or -ENOMEM. deinit frees what it owns and zeroes it. */
int daemon_config_init(DaemonConfig *ret);
void daemon_config_deinit(DaemonConfig *d);
int daemon_config_copy(const DaemonConfig *from, DaemonConfig *ret);

/* The checks over several keys: 0, -EINVAL with a sentence and the two keys that do not fit, -ENOMEM. */
typedef struct {
	const Key *first, *second;
} KeyPair;
int session_config_check_keys(const SessionConfig *c, char **ret_text, KeyPair *ret);
/* Keys about files of a session that writes none: 0, -EINVAL likewise (the second key is `io`), -ENOMEM. Apart from
 * the others, since who says io = "none" himself, over what another file asks for, may want just that. */
int session_config_check_unused(const SessionConfig *c, char **ret_text, KeyPair *ret);
int daemon_config_check_keys(const DaemonConfig *d, char **ret_text, KeyPair *ret);
/* Bytes that a region takes at least with so many sub-buffers per ring: rings for `n_online` CPUs, two side rings of an
 * eighth of one (64 KiB at least), a page of header and the control lines of `n_possible` CPUs. The same as
 * geometry_plan()'s, which has the last word when the session starts. */
u64 session_config_minimum(u32 sub_buffers, u32 n_online, u32 n_possible);

/* A Config with defaults and no session. */
int config_new(Config **ret);
int config_copy(const Config *from, Config **ret);
/* Puts s at its place by name, instead of one of the same name. Takes s on success. */
int config_put(Config *c, SessionConfig *s);
void config_remove(Config *c, size_t i);
