/* SPDX-License-Identifier: MIT */
/* Where a message goes is decided once, by who reads our stderr; how often, by a budget per call site, so
 * that a hostile producer cannot drown the journal through us. */
#include "systemd/journal.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>

/* We name the function ourselves or not at all: CODE_FILE of this file would say the same for every message. */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#include "lib/base.h"

#define TEXT_MAX 2048

/* One call site may say so much in one interval; what is swallowed is counted and said with the next one
 * that passes. */
#define BUDGET		32
#define BUDGET_INTERVAL (10 * NSEC_PER_SEC)
#define N_SITES		64

typedef enum {
	TARGET_UNKNOWN,
	TARGET_JOURNAL, /* stderr is a stream into the journal: speak its own protocol, with fields */
	TARGET_PREFIX,	/* the service manager reads lines: <N>text */
	TARGET_PLAIN,	/* a person or a test reads */
} Target;

typedef struct {
	const char *format; /* the address of the format names the call site */
	u64 since;
	u32 n, swallowed;
} Site;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Target target;
static Site sites[N_SITES];
static int max_level = LOG_INFO;

static Target target_find(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	uintmax_t dev, ino;
	struct stat st;

	if (!stream)
		return getenv("INVOCATION_ID") && !isatty(STDERR_FILENO) ? TARGET_PREFIX : TARGET_PLAIN;
	if (sscanf(stream, "%ju:%ju", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
	    st.st_dev == (dev_t)dev && st.st_ino == (ino_t)ino)
		return TARGET_JOURNAL;
	/* the variable is inherited: somebody pointed our stderr elsewhere, and reads it there */
	return TARGET_PLAIN;
}

/* Whether this call may speak; *ret_swallowed is how many before it could not. Under the lock. */
static bool site_admit(const char *format, u32 *ret_swallowed)
{
	u64 now = monotonic_ns();
	Site *s = NULL, *oldest = &sites[0];

	for (size_t i = 0; i < N_SITES && !s; i++) {
		if (sites[i].format == format)
			s = &sites[i];
		else if (sites[i].since < oldest->since)
			oldest = &sites[i];
	}
	if (!s) {
		/* More sites than slots: the one that has been quiet longest forgets its count. */
		s = oldest;
		*s = (Site){ .format = format, .since = now };
	}
	if (now - s->since >= BUDGET_INTERVAL) {
		s->since = now;
		s->n = 0;
	}
	if (s->n >= BUDGET) {
		s->swallowed++;
		return false;
	}
	s->n++;
	*ret_swallowed = s->swallowed;
	s->swallowed = 0;
	return true;
}

/* Adds NAME=value to the vector; `*buffer` owns the bytes until they are sent. */
static void field_add(struct iovec *iov, size_t *n, char **buffer, const char *name, const char *value)
{
	if (!value || asprintf(buffer, "%s=%s", name, value) < 0) {
		*buffer = NULL;
		return;
	}
	iov[(*n)++] = (struct iovec){ *buffer, strlen(*buffer) };
}

static int send_journal(int priority, const JournalFields *f, const char *text)
{
	static const JournalFields none;
	char number[3][24];
	char *buffer[14] = { NULL };
	struct iovec iov[14];
	size_t n = 0, b = 0;
	int r;

	if (!f)
		f = &none;
	(void)snprintf(number[0], sizeof(number[0]), "%d", priority);
	(void)snprintf(number[1], sizeof(number[1]), "%d", (int)f->pid);
	(void)snprintf(number[2], sizeof(number[2]), "%llu", f->lost);

	field_add(iov, &n, &buffer[b++], "MESSAGE", text);
	field_add(iov, &n, &buffer[b++], "PRIORITY", number[0]);
	field_add(iov, &n, &buffer[b++], "SYSLOG_IDENTIFIER", "tracerd");
	field_add(iov, &n, &buffer[b++], "MESSAGE_ID", f->message_id);
	field_add(iov, &n, &buffer[b++], "TRACER_SESSION", f->session);
	field_add(iov, &n, &buffer[b++], "TRACER_SNAPSHOT_PATH", f->path);
	field_add(iov, &n, &buffer[b++], "TRACER_TRIGGER", f->trigger);
	field_add(iov, &n, &buffer[b++], "TRACER_REASON", f->reason);
	field_add(iov, &n, &buffer[b++], "TRACER_COREDUMP", f->coredump);
	field_add(iov, &n, &buffer[b++], "TRACER_UNIT", f->unit);
	field_add(iov, &n, &buffer[b++], "TRACER_COMMAND", f->command);
	field_add(iov, &n, &buffer[b++], "TRACER_PRODUCER_PID", f->pid > 0 ? number[1] : NULL);
	field_add(iov, &n, &buffer[b++], "TRACER_LOST", f->has_lost ? number[2] : NULL);

	r = sd_journal_sendv(iov, (int)n);
	for (size_t i = 0; i < b; i++)
		free(buffer[i]);
	return r;
}

/* One write per message, so that lines of several threads do not mix. */
static void send_stderr(Target t, int priority, const char *text)
{
	_cleanup_free_ char *line = NULL;
	size_t done = 0, size;

	if (t == TARGET_PLAIN) {
		if (asprintf(&line, "tracerd: %s\n", text) < 0)
			line = NULL;
	} else if (asprintf(&line, "<%d>%s\n", priority, text) < 0)
		line = NULL;
	if (!line)
		return;

	/* A line is a message there: what a producer named itself must not begin a second one. */
	size = strlen(line);
	for (size_t i = 0; i + 1 < size; i++)
		if (t == TARGET_PREFIX && line[i] == '\n')
			line[i] = ' ';

	while (done < size) {
		ssize_t w = write(STDERR_FILENO, line + done, size - done);

		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return; /* nobody is left to tell */
		done += (size_t)w;
	}
}

void journal_log(int priority, const JournalFields *fields, const char *format, ...)
{
	int saved = errno; /* %m must mean what the caller saw, and the caller may still need it */
	char text[TEXT_MAX];
	u32 swallowed = 0;
	bool admitted;
	Target t;
	va_list ap;
	int n;

	priority &= LOG_PRIMASK;

	(void)pthread_mutex_lock(&lock);
	if (target == TARGET_UNKNOWN)
		target = target_find();
	t = target;
	/* Debug messages were asked for; a message that names a file on disk is the only way to find it. */
	admitted = priority <= max_level &&
		   (priority == LOG_DEBUG || (fields && fields->path) || site_admit(format, &swallowed));
	(void)pthread_mutex_unlock(&lock);

	if (admitted) {
		va_start(ap, format);
		errno = saved;
		n = vsnprintf(text, sizeof(text), format, ap);
		va_end(ap);
		if (n >= 0 && swallowed > 0 && (size_t)n < sizeof(text))
			(void)snprintf(text + n, sizeof(text) - (size_t)n,
				       " (%u messages of this kind were not shown)", swallowed);

		/* A journal that is down or full must not cost the message: PID 1 still reads stderr. */
		if (n >= 0 && (t != TARGET_JOURNAL || send_journal(priority, fields, text) < 0))
			send_stderr(t == TARGET_PLAIN ? TARGET_PLAIN : TARGET_PREFIX, priority, text);
	}
	errno = saved;
}

void journal_set_level(int priority)
{
	(void)pthread_mutex_lock(&lock);
	max_level = priority & LOG_PRIMASK;
	(void)pthread_mutex_unlock(&lock);
}

int journal_level(void)
{
	int level;

	(void)pthread_mutex_lock(&lock);
	level = max_level;
	(void)pthread_mutex_unlock(&lock);
	return level;
}
