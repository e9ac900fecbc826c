/* SPDX-License-Identifier: MIT */
/* From causes to automatic snapshots. */
#include "daemon/manager-private.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "lib/pattern.h"
#include "daemon/state.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

/* One session meets one cause. True if a snapshot will be taken, or is being. */
static bool session_fire(Manager *m, Session *s, const Cause *cause, const char *trigger,
			 const char *reason, const char *const *environment, bool *ret_suppressed)
{
	u64 now = manager_now();
	Failure f = FAILURE_NULL;

	*ret_suppressed = false;
	if (jobs_join(m->jobs, s, reason)) {
		triggers_note(&s->triggers, cause, now);
		return true;
	}
	switch (triggers_decide(&s->triggers, cause, now, s->config->snapshot.min_interval_ns)) {
	case VERDICT_DUPLICATE:
		log_debug("session '%s': %s; its snapshot was taken already", s->config->name, reason);
		return false;
	case VERDICT_SUPPRESS:
		s->suppressed++;
		*ret_suppressed = true;
		journal_log(LOG_NOTICE,
			    &(JournalFields){ .message_id = MESSAGE_SNAPSHOT_SUPPRESSED,
					      .session = s->config->name,
					      .trigger = trigger,
					      .unit = cause->unit,
					      .pid = cause->pid },
			    "session '%s': no snapshot (%s): the last automatic one is less than "
			    "snapshot.min_interval old",
			    s->config->name, reason);
		return false;
	case VERDICT_FIRE:
		break;
	}
	if (jobs_add(m->jobs, s, trigger, reason, true, NULL, environment, NULL, NULL, NULL, &f) < 0) {
		journal_log(LOG_ERR,
			    &(JournalFields){ .message_id = MESSAGE_SNAPSHOT_FAILED,
					      .session = s->config->name,
					      .trigger = trigger },
			    "session '%s': no snapshot (%s): %s", s->config->name, reason, f.text);
		return false;
	}
	state_session(s); /* when it fired */
	return true;
}

static void reason_who(const Producer *p, char *ret, size_t size)
{
	if (p->peer.unit[0])
		(void)snprintf(ret, size, "%d %s (%s)", (int)p->peer.pid, p->peer.command,
			       p->peer.unit);
	else
		(void)snprintf(ret, size, "%d %s", (int)p->peer.pid, p->peer.command);
}

/* Any signal counts, SIGTERM too: the daemon cannot know which death was wanted, and a snapshot too many costs disk space that
 * retention bounds. A service that is to be stopped without one handles SIGTERM and exits, as most do. */
void manager_on_crash(Manager *m, const Producer *p, const Death *death)
{
	const Cause cause = { CAUSE_CRASH, p->peer.pid, p->peer.start_time, p->peer.unit };
	char how[64], who[256], reason[400], pid[16], signal[16];
	const char *environment[] = { "pid", pid, "command", p->peer.command,
				      "signal", signal, "unit", p->peer.unit, NULL };
	bool suppressed;

	death_describe(death, how, sizeof(how));
	reason_who(p, who, sizeof(who));
	(void)snprintf(reason, sizeof(reason), "%s %s", who, how);
	(void)snprintf(pid, sizeof(pid), "%d", (int)p->peer.pid);
	(void)snprintf(signal, sizeof(signal), "%d", WTERMSIG(death->status));
	if (!p->peer.unit[0])
		environment[6] = NULL;
	journal_log(LOG_NOTICE,
		    &(JournalFields){ .message_id = MESSAGE_PRODUCER_CRASHED,
				      .unit = p->peer.unit[0] ? p->peer.unit : NULL,
				      .command = p->peer.command,
				      .pid = p->peer.pid },
		    "%s", reason);
	for (Session *s = m->sessions; s; s = s->next)
		if (s->config->snapshot.on_crash && session_records(s, p))
			(void)session_fire(m, s, &cause, "crash", reason, environment, &suppressed);
	if (m->observer.producer_crashed)
		m->observer.producer_crashed(m->userdata, p->peer.pid, p->peer.command,
					     p->peer.unit);
}

static bool unit_wanted(const Session *s, const char *unit)
{
	const Strings *globs = &s->config->snapshot.on_unit_failure;

	for (size_t i = 0; i < globs->n; i++)
		if (pattern_match(globs->v[i], unit))
			return true;
	return false;
}

void manager_on_unit_failed(void *userdata, const char *unit, const char *result)
{
	const Cause cause = { .kind = CAUSE_UNIT, .unit = unit };
	const char *environment[] = { "unit", unit, "result", result, NULL };
	Manager *m = userdata;
	char reason[400];
	bool suppressed;

	(void)snprintf(reason, sizeof(reason), "unit %s failed: %s", unit, result);
	for (Session *s = m->sessions; s; s = s->next)
		if (s->running && unit_wanted(s, unit))
			(void)session_fire(m, s, &cause, "unit", reason, environment, &suppressed);
}

u32 manager_on_request(Manager *m, const Producer *p, const char *reason, u32 *ret_suppressed)
{
	const Cause cause = { CAUSE_PROGRAM, p->peer.pid, p->peer.start_time, p->peer.unit };
	char pid[16];
	const char *environment[] = { "pid", pid, "command", p->peer.command, NULL };
	u32 n = 0;

	*ret_suppressed = 0;
	(void)snprintf(pid, sizeof(pid), "%d", (int)p->peer.pid);
	for (Session *s = m->sessions; s; s = s->next) {
		bool suppressed;

		if (!session_records(s, p))
			continue;
		n += session_fire(m, s, &cause, "program", reason, environment, &suppressed);
		*ret_suppressed += suppressed;
	}
	return n;
}
