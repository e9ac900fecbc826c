/* SPDX-License-Identifier: MIT */
/* The validated configuration: what the daemon is told to do, whoever said it (files, D-Bus). The rest of
 * the program never sees libconfig. All strings and arrays are owned by their struct. */
#pragma once

#include <stdio.h>

#include "lib/base.h"

typedef enum { POLICY_OVERWRITE, POLICY_DISCARD, POLICY_BLOCK } Policy;
typedef enum { BUFFERS_PER_USER, BUFFERS_PER_UNIT, BUFFERS_PER_PROCESS } Buffers;
typedef enum { IO_NONE, IO_AUTO, IO_WRITE, IO_MMAP, IO_SPLICE, IO_DIRECT } Io;
typedef enum { ON_STOP_KEEP, ON_STOP_SNAPSHOT } OnStop;
typedef enum { CLOCK_AUTO, CLOCK_COUNTER, CLOCK_MONO } ClockChoice;

/* A list of strings. */
typedef struct {
	char **v;
	size_t n;
} Strings;

/* Where a setting was made; file is NULL where nobody made it: the default holds. */
typedef struct {
	char *file;
	int line;
} ConfigOrigin;

/* What may stay on disk of one directory. 0 means "no limit". */
typedef struct {
	u32 max_count;
	u64 max_size;	     /* bytes in all */
	u64 max_age_ns;
	u64 keep_free;	     /* bytes of the file system, or ... */
	u32 keep_free_percent; /* ... per cent of it, when nonzero */
} RetentionConfig;

/* Automatic snapshots. 0 means "no limit" for sizes, counts and times. */
typedef struct {
	bool on_crash;
	bool on_exit_failure;	 /* a recorded program exits with another status than 0 */
	bool on_unknown_death;	 /* ... is gone, and nobody says how */
	bool on_coredump;	 /* ... is in a core dump that the journal tells of */
	Strings on_unit_failure; /* globs of unit names */
	Strings on_event;	 /* patterns: an event that is recorded */
	RetentionConfig keep; /* of the session's snapshots */
	u64 min_interval_ns; /* between automatic snapshots of this session */
	u64 duration_ns;     /* save only the newest so much; 0: all */
	u64 max_snapshot_size; /* save only the newest so many bytes; 0: all */
} SnapshotConfig;

typedef struct {
	char *name;
	char *file; /* where it was first named; NULL: over D-Bus */
	int line;
	bool autostart;
	Strings events;	    /* patterns; default "*:*" */
	Strings exclude;    /* patterns taken out again */
	int level;	    /* the least severe that is recorded; default TRACER_DEBUG: all */
	Strings users;	    /* names or numbers; empty: all */
	Strings processes;  /* globs of process names (comm); empty: all */
	Strings units;	    /* globs of unit names; empty: all */
	Policy policy;
	Buffers buffers;
	Strings pinned;	    /* patterns of events whose first records are kept; empty: none */
	u64 pinned_memory;  /* bytes for them, besides `memory` */
	u64 memory;	    /* bytes: all rings of one owner together */
	u32 sub_buffers;    /* per ring; power of two >= 16 */
	u32 contexts;	    /* ABI_CONTEXT_* */
	Io io;		    /* not IO_NONE: the session writes continuously, below `output` */
	char *output;	    /* NULL: the state directory + "/traces/" + name */
	u64 flush_interval_ns; /* what is not a whole sub-buffer is written after so long at most */
	u64 block_timeout_ns;  /* policy block: how long a writer waits at most */
	u64 file_size;	    /* a new trace once a file of the present one is this large; 0: never */
	u64 file_interval_ns; /* ... or the present one is this old; 0: never */
	RetentionConfig files; /* of finished traces in `output`: file_count, output_size and so on */
	char *backing;	       /* NULL: none. Rings are copied below backing + "/" + name, for a machine that dies */
	u64 sync_interval_ns;  /* ... this often */
	OnStop on_stop;
	SnapshotConfig snapshot;
	ConfigOrigin *origins; /* which file set what; session_config_origin() */
} SessionConfig;

typedef struct {
	char *snapshot_directory; /* NULL: the state directory + "/snapshots" */
	ClockChoice clock;
	u64 max_memory;		  /* of all rings of all sessions */
	u64 max_memory_per_user;  /* of all rings whose owner is or belongs to one user */
	u32 max_producers;
	u32 max_producers_per_user;
	u32 max_classes_per_user;
	u64 sync_timeout_ns;	  /* a producer that does not finish its exchange in this time is dropped */
	ConfigOrigin *origins;
} DaemonConfig;

typedef struct {
	DaemonConfig daemon;
	SessionConfig **sessions; /* sorted by name */
	size_t n_sessions;
} Config;

/* One problem: "FILE:LINE: error: sentence". A reader collects them all in one run. */
typedef struct {
	char *file; /* NULL: not from a file */
	int line;
	bool warning;
	char *text;
} ConfigProblem;

typedef struct {
	ConfigProblem *v;
	size_t n;
} ConfigProblems;

/* Where configuration is looked for, in rising precedence: first D/tracer.conf of every directory, in this order; then
 * D/tracer.conf.d/NAME.conf of all directories, sorted by NAME across directories, the last directory winning
 * for the same NAME. What is read later wins, key by key. A drop-in that is empty or a link to /dev/null masks those of
 * its NAME; a tracer.conf that is a link to /dev/null masks the ones before it. The default list: /usr/lib/tracer
 * /usr/local/lib/tracer /run/tracer /etc/tracer. */
extern const char *const config_default_directories[];

/* Reads everything below `directories` (NULL-terminated; NULL: the default list). *ret is always set unless -ENOMEM: it
 * holds what could be used; *problems says what could not. Returns 0 if there was no error (warnings may be),
 * -EINVAL if there was, -ENOMEM. A daemon that starts uses what there is; a reload goes on only with 0.
 * What "could be used" means: a file whose text is broken is left out; in the others a group (a session, the daemon)
 * with an error is left out, so that it is as the files before made it, or is not there. */
int config_load(const char *const *directories, Config **ret, ConfigProblems *problems);
/* The same for exactly one file (--config, --check-config FILE). */
int config_load_file(const char *file, Config **ret, ConfigProblems *problems);
/* libconfig exports two functions of these names, and would find ours in their place. */
#define config_read	 config_load
#define config_read_file config_load_file

/* --check-config: reads `file`, or all of `directories` (NULL: the default list) where file is NULL, prints every problem
 * to out, one a line, and a last line that sums up. Returns what the process should exit with: 0, 78 (EX_CONFIG) if there
 * was an error, 71 (EX_OSERR) without memory. */
int config_check(const char *const *directories, const char *file, FILE *out);
int config_check_main(const char *file, FILE *out);

/* The effective settings, in the form of a file that would set them all, each with "// FILE:LINE" or
 * "// default". 0 or -errno of the stream. */
int config_dump(const Config *c, FILE *out);
/* --dump-config: the same of what is read as config_check() reads it, with the problems to err. Returns what the process
 * should exit with: as config_check(), or 74 (EX_IOERR) if out did not take it. */
int config_dump_main(const char *const *directories, const char *file, FILE *out, FILE *err);
/* Every key, its range, default and text, for --help-config. */
int config_help(FILE *out);

Config *config_free(Config *c);
DEFINE_CLEANUP(Config *, config_free)
void config_problems_clear(ConfigProblems *p);
/* "file:12: error: ..." into a fresh string */
char *config_problem_text(const ConfigProblem *p);
const SessionConfig *config_find(const Config *c, const char *name);

/* A session with all defaults; -EINVAL for a name that is empty, longer than 64 bytes, or holds '/', ':',
 * control bytes or invalid UTF-8, or begins with '.' (it must serve as path, label, file and journal field). */
int session_config_new(SessionConfig **ret, const char *name);
SessionConfig *session_config_copy(const SessionConfig *c);
/* The session as text, for whoever reads it back: all keys, not where they were said. Allocated, NULL without memory. */
char *session_config_text(const SessionConfig *c);
/* 0, with *ret; -EINVAL: it is none of session_config_text(); -ENOMEM. */
int session_config_from_text(SessionConfig **ret, const char *text);
SessionConfig *session_config_free(SessionConfig *c);
DEFINE_CLEANUP(SessionConfig *, session_config_free)
bool session_config_equal(const SessionConfig *a, const SessionConfig *b); /* all but where it was said */
bool daemon_config_equal(const DaemonConfig *a, const DaemonConfig *b);
bool config_session_name_valid(const char *name);

/* One setting from elsewhere than a file (D-Bus), under the key of the file: "memory", "snapshot.max_count".
 * Returns 0, -EINVAL (*ret_text: a sentence that names the key, the nearest right one or the range; owned by the
 * caller) or -ENOMEM. */
typedef struct {
	enum {
		CONFIG_BOOL,
		CONFIG_INT,
		CONFIG_STRING,
		CONFIG_STRINGS,
		/* what only a file can hold, and no key wants */
		CONFIG_FRACTION,
		CONFIG_GROUP,
		CONFIG_LIST,
	} type;
	bool boolean;
	int64_t integer;
	const char *string;
	Strings strings; /* borrowed */
} ConfigValue;
int session_config_set(SessionConfig *c, const char *key, const ConfigValue *value, char **ret_text);
/* Where "memory", "snapshot.max_count" was set; NULL: nowhere, or no such key. */
const ConfigOrigin *session_config_origin(const SessionConfig *c, const char *key);
/* The whole is possible (e.g. memory against sub_buffers); called at the end of a file too. */
int session_config_check(const SessionConfig *c, char **ret_text);

/* Every key with type, range, default and text, for the man page, --help-config and a test that holds the
 * shipped file to the table. */
typedef struct {
	const char *group; /* "daemon", "session", "snapshot" */
	const char *key;
	/* "bool", "choice", "level", "count", "size", "time", "list", "path", "string", "size or per cent" */
	const char *type;
	const char *range;
	const char *fallback; /* the default, as a file would say it */
	const char *text;
} ConfigKey;
const ConfigKey *config_keys(size_t *ret_n);

/* "16M", "1G", "512K", "4096": bytes, powers of 1024. "500ms", "10s", "5min", "2h", "30d": nanoseconds. 0, or -EINVAL /
 * -ERANGE; nothing may follow. */
int parse_size(const char *s, u64 *ret);
int parse_time(const char *s, u64 *ret_ns);
/* Shortest exact forms of the same. */
void format_size(u64 bytes, char ret[32]);
void format_time(u64 ns, char ret[32]);

/* names of enums as the file has them */
const char *policy_name(Policy p);
const char *buffers_name(Buffers b);
const char *io_name(Io io);
const char *on_stop_name(OnStop s);
const char *clock_choice_name(ClockChoice c);
