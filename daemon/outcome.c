/* SPDX-License-Identifier: MIT */
/* What became of a snapshot. */
#include "daemon/outcome.h"

#include "daemon/state-session.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

/* What a dead process left is on disk now, whole, and nobody will write there again. But a snapshot that has not begun, perhaps
 * the one of its death, wants it too. */
static void drop_dead(Job *b, Session *s)
{
	if (s->n_waiting || b->options.duration_ns || b->options.max_size)
		return;
	for (size_t i = 0; i < b->snapshot.n_sources; i++) {
		Owner *o = b->owners[i];

		if (o->key.kind == BUFFERS_PER_PROCESS && b->was_idle[i] && o->session == s &&
		    o->n_attachments == 0)
			session_drop_owner(s, o);
	}
}

/* What the cause said of it; NULL: nothing. */
static const char *environment_of(const Job *b, const char *key)
{
	for (size_t i = 0; i + 1 < b->n_environment; i += 2)
		if (strcmp(b->environment[i], key) == 0 && b->environment[i + 1][0])
			return b->environment[i + 1];
	return NULL;
}

void outcome_failed(const Job *b)
{
	journal_log(LOG_ERR,
		    &(JournalFields){ .message_id = MESSAGE_SNAPSHOT_FAILED,
				      .session = b->session_name,
				      .trigger = b->trigger },
		    "session '%s': no snapshot (%s): %s", b->session_name, b->reason, b->failure.text);
}

void outcome_written(Job *b, Reasons *past)
{
	const char *pid = environment_of(b, "pid");
	const Saved saved = { b->number, b->session_name, b->path, b->trigger,
			      (char *)environment_of(b, "unit"), pid ? (pid_t)atoi(pid) : 0 };
	Session *s = b->session;
	const SnapshotResult *t = &b->result;
	u64 lost = t->overwritten;

	for (u32 i = 0; i < ABI_LOST_CAUSES; i++)
		lost += t->lost[i];
	journal_log(LOG_NOTICE,
		    &(JournalFields){ .message_id = MESSAGE_SNAPSHOT_WRITTEN,
				      .session = b->session_name,
				      .path = b->path,
				      .trigger = b->trigger,
				      .reason = b->reason,
				      .unit = saved.unit,
				      .pid = saved.pid,
				      .coredump = b->coredump,
				      .lost = lost,
				      .has_lost = true },
		    "session '%s': snapshot %s (%s): %llu records", b->session_name, b->path,
		    b->reason, (unsigned long long)t->n_records);
	if (t->corrupt_subs || t->corrupt_records || t->clamped)
		journal_log(LOG_WARNING,
			    &(JournalFields){ .message_id = MESSAGE_CORRUPT,
					      .session = b->session_name,
					      .path = b->path },
			    "session '%s': %llu sub-buffers and %llu records held bytes that no "
			    "library of ours writes and were left out, %llu stamps went backwards",
			    b->session_name, (unsigned long long)t->corrupt_subs,
			    (unsigned long long)t->corrupt_records, (unsigned long long)t->clamped);
	if (b->automatic)
		reasons_save(past, &saved);
	if (b->late)
		reasons_say(past, b->number, b->late, b->coredump);
	if (!s)
		return;
	/* counters say nothing of rings that a Clear took away meanwhile */
	if (s->n_renewals == b->n_renewals) {
		/* of a session that writes it is a second copy, which counts for nothing */
		if (!session_is_continuous(s))
			s->written += t->n_records;
		s->clamped += t->clamped;
		s->corrupt += t->corrupt_subs;
	}
	free(s->last_snapshot);
	s->last_snapshot = strdup(b->path);
	state_session(s);
	drop_dead(b, s);
}
