/* SPDX-License-Identifier: MIT */
/* What operators read. To the journal with MESSAGE_ID and fields where there is one, else to stderr with
 * a <N> prefix when systemd reads it and "tracerd: " otherwise. Once where it is decided. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <syslog.h>

typedef struct {
	const char *message_id; /* one of systemd/messages.h, or NULL */
	const char *session, *path, *trigger, *reason; /* NULL: left out; TRACER_SESSION= ... */
	const char *unit, *command, *coredump;
	pid_t pid;		/* 0: left out; TRACER_PRODUCER_PID= */
	unsigned long long lost; /* TRACER_LOST=, when has_lost */
	bool has_lost;
} JournalFields;

/* Fields may be NULL. Priority as in syslog(3). */
void journal_log(int priority, const JournalFields *fields, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void journal_set_level(int priority);
int journal_level(void);
#define log_error(...)	 journal_log(LOG_ERR, NULL, __VA_ARGS__)
#define log_warning(...) journal_log(LOG_WARNING, NULL, __VA_ARGS__)
#define log_notice(...)	 journal_log(LOG_NOTICE, NULL, __VA_ARGS__)
#define log_info(...)	 journal_log(LOG_INFO, NULL, __VA_ARGS__)
#define log_debug(...)	 journal_log(LOG_DEBUG, NULL, __VA_ARGS__)
