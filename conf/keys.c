/* SPDX-License-Identifier: MIT */
#include "conf/keys.h"

#include <stdio.h>

#include "conf/item.h"
#include "conf/problem.h"
#include "conf/suggest.h"
#include "lib/abi.h"
#include "lib/tracer.h"

#define K (1ull << 10)
#define M (1ull << 20)
#define G (1ull << 30)
#define T (1ull << 40)
#define DAY (86400 * NSEC_PER_SEC)

static const KeyChoice level_choices[] = {
	{ "emerg", TRACER_EMERG },
	{ "alert", TRACER_ALERT },
	{ "crit", TRACER_CRIT },
	{ "err", TRACER_ERR },
	{ "warning", TRACER_WARNING },
	{ "notice", TRACER_NOTICE },
	{ "info", TRACER_INFO },
	{ "debug_system", TRACER_DEBUG_SYSTEM },
	{ "debug_program", TRACER_DEBUG_PROGRAM },
	{ "debug_process", TRACER_DEBUG_PROCESS },
	{ "debug_module", TRACER_DEBUG_MODULE },
	{ "debug_unit", TRACER_DEBUG_UNIT },
	{ "debug_function", TRACER_DEBUG_FUNCTION },
	{ "debug_line", TRACER_DEBUG_LINE },
	{ "debug", TRACER_DEBUG },
	{ NULL },
};

static const KeyChoice policy_choices[] = {
	{ "overwrite", POLICY_OVERWRITE },
	{ "discard", POLICY_DISCARD },
	{ "block", POLICY_BLOCK },
	{ NULL },
};

static const KeyChoice buffers_choices[] = {
	{ "per-user", BUFFERS_PER_USER },
	{ "per-unit", BUFFERS_PER_UNIT },
	{ "per-process", BUFFERS_PER_PROCESS },
	{ NULL },
};

static const KeyChoice context_choices[] = {
	{ "vpid", ABI_CONTEXT_VPID },
	{ "vtid", ABI_CONTEXT_VTID },
	{ NULL },
};

static const KeyChoice io_choices[] = {
	{ "none", IO_NONE },
	{ "auto", IO_AUTO },
	{ "write", IO_WRITE },
	{ "mmap", IO_MMAP },
	{ "splice", IO_SPLICE },
	{ "direct", IO_DIRECT },
	{ "relay", 0, true },
	{ NULL },
};

static const KeyChoice on_stop_choices[] = {
	{ "keep", ON_STOP_KEEP },
	{ "snapshot", ON_STOP_SNAPSHOT },
	{ NULL },
};

static const KeyChoice clock_choices[] = {
	{ "auto", CLOCK_AUTO },
	{ "counter", CLOCK_COUNTER },
	{ "monotonic", CLOCK_MONO },
	{ NULL },
};

#define DOC(g, n, type, range, fallback, text) .doc = { g, n, type, range, fallback, text }
#define SESSION(n, k, field, type, range, fallback, text, ...)                                     \
	{                                                                                          \
		.group = GROUP_SESSION, .name = n, .kind = k,                                      \
		.offset = offsetof(SessionConfig, field),                                          \
		DOC("session", n, type, range, fallback, text), __VA_ARGS__                        \
	}
#define SNAPSHOT(n, k, field, type, range, fallback, text, ...)                                    \
	{                                                                                          \
		.group = GROUP_SNAPSHOT, .name = n, .kind = k,                                     \
		.offset = offsetof(SessionConfig, snapshot.field),                                 \
		DOC("snapshot", n, type, range, fallback, text), __VA_ARGS__                       \
	}
#define DAEMON(n, k, field, type, range, fallback, text, ...)                                      \
	{                                                                                          \
		.group = GROUP_DAEMON, .name = n, .kind = k,                                       \
		.offset = offsetof(DaemonConfig, field),                                           \
		DOC("daemon", n, type, range, fallback, text), __VA_ARGS__                         \
	}

const Key keys[] = {
	SESSION("autostart", KEY_BOOL, autostart, "bool", "true or false", "false",
		"Start recording when tracerd starts."),
	SESSION("events", KEY_LIST, events, "list", "patterns of PROVIDER:EVENT, at least one",
		"[ \"*:*\" ]",
		"The events to record. '*' stands for anything, '?' for one character; \"shop\" is "
		"\"shop:*\".",
		.check = item_event, .filled = true),
	SESSION("exclude", KEY_LIST, exclude, "list", "patterns of PROVIDER:EVENT", "[ ]",
		"Events to leave out again, of those that match `events`.", .check = item_event),
	SESSION("level", KEY_LEVEL, level, "level", "\"emerg\" to \"debug\", or 0 to 14", "\"debug\"",
		"The least severe level to record: syslog's emerg (0), alert, crit, err, warning, "
		"notice and info (6), then debug_system (7), debug_program, debug_process, "
		"debug_module, debug_unit, debug_function, debug_line (13) and debug (14).",
		.choices = level_choices, .max = TRACER_DEBUG),
	SESSION("users", KEY_LIST, users, "list", "user names or numbers", "[ ]",
		"Record only programs of these users. Empty: of all.", .check = item_user),
	SESSION("processes", KEY_LIST, processes, "list", "patterns of process names", "[ ]",
		"Record only processes of these names, which the kernel cuts to 15 bytes. Empty: all.",
		.check = item_process),
	SESSION("units", KEY_LIST, units, "list", "patterns of systemd unit names", "[ ]",
		"Record only processes of these units, as in \"nginx.service\". Empty: all.",
		.check = item_unit),
	SESSION("policy", KEY_CHOICE, policy, "choice",
		"\"overwrite\", \"discard\" or \"block\"", "\"overwrite\"",
		"What a full ring does: overwrite the oldest events (a flight recorder), discard, and "
		"count, the new ones, or let programs wait until there is room (see `block_timeout`), "
		"which needs a session that writes (see `io`).",
		.choices = policy_choices),
	SESSION("buffers", KEY_CHOICE, buffers, "choice",
		"\"per-user\", \"per-unit\" or \"per-process\"", "\"per-user\"",
		"Who shares rings, and becomes one trace. What a broken program writes over "
		"spoils these rings and no others.",
		.choices = buffers_choices),
	SESSION("memory", KEY_SIZE, memory, "size", "256K to 1T", "\"16M\"",
		"All rings of one user, unit or process (see `buffers`) together.", .min = 256 * K,
		.max = T),
	SESSION("sub_buffers", KEY_COUNT, sub_buffers, "count", "16 to 1024, a power of two", "16",
		"Parts that a ring is split into. A snapshot may miss up to two of them at the "
		"old end; each is at least 4K, and no event is larger than one.",
		.min = ABI_MIN_SUBS, .max = 1024, .power_of_two = true),
	SESSION("pinned", KEY_LIST, pinned, "list", "patterns of PROVIDER:EVENT", "[ ]",
		"Of the recorded events, those whose first records of each program stay in memory and in every "
		"snapshot however often the rings come round: what a service says when it starts. Only with "
		"io = \"none\".",
		.check = item_event),
	SESSION("pinned_memory", KEY_SIZE, pinned_memory, "size", "128K to 64M", "\"256K\"",
		"For pinned events, besides `memory`: shared out evenly to 16 programs at a time (4 with "
		"buffers = \"per-process\"). What does not fit is recorded like other events.",
		.min = 128 * K, .max = 64 * M),
	SESSION("contexts", KEY_CONTEXTS, contexts, "list", "\"vpid\" and \"vtid\"",
		"[ \"vpid\", \"vtid\" ]",
		"What every event carries besides its fields: 4 bytes each for process and thread, "
		"as numbered in the program's own pid namespace.",
		.choices = context_choices),
	SESSION("io", KEY_CHOICE, io, "choice",
		"\"none\", \"auto\", \"write\", \"mmap\", \"splice\" or \"direct\"", "\"none\"",
		"How a session writes continuously. none: not at all; it stays in memory, and only "
		"snapshots are written. auto: the best of the others that the file system takes. write: "
		"by a system call for each packet, to any file system. mmap: into the mapped file. "
		"splice: by moving pages instead of copying them. direct: past the page cache, which "
		"stays as it was.",
		.choices = io_choices),
	SESSION("output", KEY_PATH, output, "path", "an absolute path, or \"\"", "\"\"",
		"Where a session that writes puts its traces. \"\": a directory of the session's name in "
		"traces/ of the state directory, which is /var/lib/tracer for the system's tracerd. "
		"Elsewhere needs ReadWritePaths= in a drop-in of tracer.service."),
	SESSION("backing", KEY_PATH, backing, "path", "an absolute path, or \"\"", "\"\"",
		"With io = \"none\": keep a copy of the rings below this directory, from which a trace is "
		"made when the machine, or tracerd, has died. It takes twice the `memory` of each "
		"user, unit or process. \"\": none. Outside of the state directory it needs "
		"ReadWritePaths= in a drop-in of tracer.service."),
	SESSION("sync_interval", KEY_TIME, sync_interval_ns, "time", "10ms to 1h", "\"1s\"",
		"With `backing`: what is new in the rings is copied and waited for this often. What was "
		"recorded since the last time is what a power cut costs.",
		.min = 10 * NSEC_PER_MSEC, .max = 3600 * NSEC_PER_SEC),
	SESSION("flush_interval", KEY_TIME, flush_interval_ns, "time", "1ms to 1h", "\"1s\"",
		"Events that do not fill a part of their ring are written after so long.",
		.min = NSEC_PER_MSEC, .max = 3600 * NSEC_PER_SEC),
	SESSION("block_timeout", KEY_TIME, block_timeout_ns, "time", "1ms to 60s", "\"100ms\"",
		"With policy = \"block\": how long a program waits for room at most. Then events are "
		"discarded, and counted, without waiting again until there is room.",
		.min = NSEC_PER_MSEC, .max = 60 * NSEC_PER_SEC),
	SESSION("file_size", KEY_SIZE, file_size, "size", "1M to 1P, or 0 for no limit", "\"0\"",
		"Begin a new trace when a file of the present one has reached this size.", .min = M,
		.max = 1024 * T, .none = true),
	SESSION("file_interval", KEY_TIME, file_interval_ns, "time",
		"100ms to 365d, or 0 for no limit", "\"0\"",
		"Begin a new trace when the present one is this old.", .min = 100 * NSEC_PER_MSEC,
		.max = 365 * DAY, .none = true),
	SESSION("file_count", KEY_COUNT, files.max_count, "count", "1 to 100000, or 0 for no limit", "0",
		"Keep at most so many finished traces; the oldest go first.", .min = 1, .max = 100000,
		.none = true),
	SESSION("output_size", KEY_SIZE, files.max_size, "size", "1M to 1P, or 0 for no limit", "\"0\"",
		"Keep at most so many bytes of finished traces; the newest one always stays.", .min = M,
		.max = 1024 * T, .none = true),
	SESSION("output_age", KEY_TIME, files.max_age_ns, "time", "1min to 3650d, or 0 for no limit",
		"\"0\"", "Remove finished traces that were begun longer ago than this; the newest one always stays.",
		.min = 60 * NSEC_PER_SEC, .max = 3650 * DAY, .none = true),
	SESSION("output_keep_free", KEY_FREE, files.keep_free, "size or per cent",
		"1M to 1P, or 1% to 99%, or 0 for no limit", "\"10%\"",
		"Leave so much of the file system free: the oldest finished traces go for it.", .min = M,
		.max = 1024 * T, .none = true),
	SESSION("on_stop", KEY_CHOICE, on_stop, "choice", "\"keep\" or \"snapshot\"", "\"keep\"",
		"When the session is stopped: keep the events in memory until tracerd ends, also when it "
		"is started again, or save them as a snapshot.",
		.choices = on_stop_choices),
	{ .group = GROUP_SESSION, .name = "name", .kind = KEY_NAME,
	  DOC("session", "name", "string", "1 to 64 bytes, without '/' and ':', not beginning with '.'",
	      "", "The session's name, where `sessions` is a list: sessions = ( { name = \"my app\"; } )") },
	{ .group = GROUP_SESSION, .name = "reset", .kind = KEY_RESET,
	  DOC("session", "reset", "bool", "true or false", "false",
	      "Forget what files read earlier said of this session: it begins with the defaults "
	      "again.") },

	SNAPSHOT("on_crash", KEY_BOOL, on_crash, "bool", "true or false", "true",
		 "Take a snapshot when a recorded program dies by a signal other than HUP, INT, TERM and "
		 "PIPE, which end a program in order."),
	SNAPSHOT("on_exit_failure", KEY_BOOL, on_exit_failure, "bool", "true or false", "false",
		 "Take a snapshot when a recorded program exits with a status that is not 0. Needs a kernel "
		 "that says how programs end (Linux 6.15)."),
	SNAPSHOT("on_unknown_death", KEY_BOOL, on_unknown_death, "bool", "true or false", "false",
		 "Take a snapshot when a recorded program is gone and nothing says how it ended, as on kernels "
		 "before Linux 6.15. There an exit in order looks the same."),
	SNAPSHOT("on_coredump", KEY_BOOL, on_coredump, "bool", "true or false", "false",
		 "Take a snapshot when the journal tells of a core dump of a recorded program, if its death has "
		 "not led to one before. After a crash the journal is looked at for a while in any case, so "
		 "that what is said of the snapshot names the core dump."),
	SNAPSHOT("on_unit_failure", KEY_LIST, on_unit_failure, "list",
		 "patterns of systemd unit names", "[ ]",
		 "Take a snapshot when one of these units enters the state `failed`.",
		 .check = item_unit),
	SNAPSHOT("on_event", KEY_LIST, on_event, "list", "patterns of PROVIDER:EVENT", "[ ]",
		 "Take a snapshot when one of these events is recorded, if the session records it.",
		 .check = item_event),
	SNAPSHOT("max_count", KEY_COUNT, keep.max_count, "count", "1 to 100000, or 0 for no limit", "20",
		 "Keep at most so many snapshots; the oldest go first.", .min = 1, .max = 100000,
		 .none = true),
	SNAPSHOT("max_size", KEY_SIZE, keep.max_size, "size", "1M to 1P, or 0 for no limit", "\"1G\"",
		 "Keep at most so many bytes of snapshots; the newest one always stays.", .min = M,
		 .max = 1024 * T, .none = true),
	SNAPSHOT("max_age", KEY_TIME, keep.max_age_ns, "time", "1min to 3650d, or 0 for no limit",
		 "\"0\"", "Remove snapshots older than this.", .min = 60 * NSEC_PER_SEC, .max = 3650 * DAY,
		 .none = true),
	SNAPSHOT("keep_free", KEY_FREE, keep.keep_free, "size or per cent",
		 "1M to 1P, or 1% to 99%, or 0 for no limit", "\"10%\"",
		 "Leave so much of the file system free: old snapshots go, and a new one is not taken "
		 "where that is not enough.",
		 .min = M, .max = 1024 * T, .none = true),
	SNAPSHOT("min_interval", KEY_TIME, min_interval_ns, "time",
		 "1ms to 30d, or 0 for no limit", "\"10s\"",
		 "The least time between two automatic snapshots of the session for one cause, so that a crash "
		 "loop does not fill the disk. Those asked for are always taken.",
		 .min = NSEC_PER_MSEC, .max = 30 * DAY, .none = true),
	SNAPSHOT("duration", KEY_TIME, duration_ns, "time", "1ms to 30d, or 0 for all", "\"0\"",
		 "Save only the newest so much of the rings.", .min = NSEC_PER_MSEC, .max = 30 * DAY,
		 .none = true),
	SNAPSHOT("max_snapshot_size", KEY_SIZE, max_snapshot_size, "size",
		 "64K to 1T, or 0 for all", "\"0\"", "Save only the newest so many bytes.",
		 .min = 64 * K, .max = T, .none = true),

	DAEMON("snapshot_directory", KEY_PATH, snapshot_directory, "path",
	       "an absolute path, or \"\"", "\"\"",
	       "Where snapshots go, each session into a directory of its name. \"\": snapshots in the "
	       "state directory, which is /var/lib/tracer for the system's tracerd."),
	DAEMON("clock", KEY_CHOICE, clock, "choice", "\"auto\", \"counter\" or \"monotonic\"",
	       "\"auto\"",
	       "What stamps events. auto: the processor's counter where the kernel trusts it, else "
	       "CLOCK_MONOTONIC; counter: also where it does not, if its rate is constant; monotonic: "
	       "CLOCK_MONOTONIC. It is chosen once per boot.",
	       .choices = clock_choices),
	DAEMON("max_memory", KEY_SIZE, max_memory, "size", "1M to 16T", "\"1G\"",
	       "All rings of all sessions together.", .min = M, .max = 16 * T),
	DAEMON("max_memory_per_user", KEY_SIZE, max_memory_per_user, "size", "1M to 16T",
	       "\"256M\"", "All rings that hold events of one user's programs.", .min = M,
	       .max = 16 * T),
	DAEMON("max_producers", KEY_COUNT, max_producers, "count", "16 to 1000000", "4096",
	       "Programs that may be attached at one time.", .min = 16, .max = 1000000),
	DAEMON("max_producers_per_user", KEY_COUNT, max_producers_per_user, "count",
	       "1 to 1000000", "1024", "The same, of one user.", .min = 1, .max = 1000000),
	DAEMON("max_classes_per_user", KEY_COUNT, max_classes_per_user, "count", "16 to 1000000",
	       "16384", "Kinds of events that the programs of one user may announce.", .min = 16,
	       .max = 1000000),
	DAEMON("sync_timeout", KEY_TIME, sync_timeout_ns, "time", "50ms to 60s", "\"1s\"",
	       "A program that has not finished its exchange with tracerd after this time is dropped; "
	       "it may come back.",
	       .min = 50 * NSEC_PER_MSEC, .max = 60 * NSEC_PER_SEC),
};

const size_t n_keys = ELEMENTSOF(keys);

/* Keys of versions to come: who takes an example from there should not be told of a misspelling. */
static const char *const later_keys[] = {
	"symbols",
};

const Key *key_find(KeyGroup group, const char *name)
{
	for (size_t i = 0; i < n_keys; i++)
		if (keys[i].group == group && strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

const char *key_path(const Key *k, char ret[64])
{
	static const char *const prefixes[] = {
		[GROUP_DAEMON] = "daemon.", [GROUP_SESSION] = "", [GROUP_SNAPSHOT] = "snapshot."
	};

	(void)snprintf(ret, 64, "%s%s", prefixes[k->group], k->name);
	return ret;
}

const Key *key_find_path(const char *path)
{
	static const char prefix[] = "snapshot.";

	if (strncmp(path, prefix, strlen(prefix)) == 0)
		return key_find(GROUP_SNAPSHOT, path + strlen(prefix));
	return key_find(GROUP_SESSION, path);
}

/* Where a key of the table stands in a file. */
static const char *group_place(KeyGroup group)
{
	static const char *const places[] = {
		[GROUP_DAEMON] = "in daemon: { }",
		[GROUP_SESSION] = "in a session",
		[GROUP_SNAPSHOT] = "in snapshot: { } of a session",
	};

	return places[group];
}

/* The nearest of one group, or with group < 0 of all; or the name of a group that may stand there. */
static const char *nearest(int group, const char *name)
{
	const char *words[64];
	size_t n = 0;

	for (size_t i = 0; i < n_keys && n < ELEMENTSOF(words) - 1; i++)
		if (group < 0 || keys[i].group == (KeyGroup)group)
			words[n++] = keys[i].name;
	if (group == GROUP_SESSION)
		words[n++] = "snapshot";
	return suggest_nearest(name, words, n);
}

int key_unknown(KeyGroup group, const char *name, const char *where, char **ret_text)
{
	char word[WORD_SHOWN + 8], list[640] = "";
	const char *near;
	size_t used = 0;

	(void)problem_word(name, word);
	for (size_t i = 0; i < n_keys; i++)
		if (strcmp(keys[i].name, name) == 0)
			return problem_text(ret_text, "key %s does not belong in %s, but %s", word, where,
					    group_place(keys[i].group));
	for (size_t i = 0; i < ELEMENTSOF(later_keys); i++)
		if (group == GROUP_SESSION && strcmp(later_keys[i], name) == 0)
			return problem_text(ret_text, "%s: not available in this version; leave it out",
					    name);
	near = nearest((int)group, name);
	if (near)
		return problem_text(ret_text, "unknown key %s in %s; did you mean \"%s\"?", word,
				    where, near);
	near = nearest(-1, name);
	for (size_t i = 0; near && i < n_keys; i++)
		if (strcmp(keys[i].name, near) == 0)
			return problem_text(ret_text,
					    "unknown key %s in %s; did you mean \"%s\", which belongs %s?",
					    word, where, near, group_place(keys[i].group));
	for (size_t i = 0; i < n_keys && used < sizeof(list); i++)
		if (keys[i].group == group)
			used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
						 used ? ", " : "", keys[i].name);
	return problem_text(ret_text, "unknown key %s in %s; the keys there are: %s%s", word, where, list,
			    group == GROUP_SESSION ? ", and snapshot: { }" : "");
}

const char *choice_name(const KeyChoice *choices, u32 value)
{
	for (; choices->name; choices++)
		if (!choices->later && choices->value == value)
			return choices->name;
	return NULL;
}

const char *policy_name(Policy p)
{
	return choice_name(policy_choices, p);
}

const char *buffers_name(Buffers b)
{
	return choice_name(buffers_choices, b);
}

const char *io_name(Io io)
{
	return choice_name(io_choices, io);
}

const char *on_stop_name(OnStop s)
{
	return choice_name(on_stop_choices, s);
}

const char *clock_choice_name(ClockChoice c)
{
	return choice_name(clock_choices, c);
}
