/* SPDX-License-Identifier: MIT */
/* A cause, told to each session in turn. */
#include "daemon/telling.h"

#include <stdio.h>

#include "daemon/state-session.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

_Static_assert(CAUSE_KINDS <= ELEMENTSOF(((SessionInfo *)0)->suppressed_by), "a count for each kind");

static void telling_suppress(Session *s, const Telling *t)
{
	/* counted once, whatever becomes of the daemon */
	state_session(s);
	state_signs(s);
	/* the first of a series is told of at once, those that follow by their number */
	if (s->triggers.of[t->cause.kind].suppressed > 1)
		return;
	s->triggers.of[t->cause.kind].unsaid = 0;
	journal_log(LOG_NOTICE,
		    &(JournalFields){ .message_id = MESSAGE_SNAPSHOT_SUPPRESSED,
				      .session = s->config->name,
				      .trigger = cause_name(t->cause.kind),
				      .reason = t->reason,
				      .unit = t->cause.unit,
				      .pid = t->cause.pid },
		    "session '%s': no snapshot (%s): the last automatic one for a cause of this kind is less "
		    "than snapshot.min_interval old; further ones are counted",
		    s->config->name, t->reason);
}

u64 telling_fire(Manager *m, Session *s, const Telling *t, bool *ret_suppressed)
{
	const char *trigger = cause_name(t->cause.kind), *reason = t->reason;
	u64 now = manager_now(), number, n;
	_cleanup_free_ char *more = NULL;
	Failure f = FAILURE_NULL;
	Sign *sign;

	sign = triggers_find(&s->triggers, &t->cause, now);
	if (!sign && jobs_join(m->jobs, s, reason, &number)) {
		triggers_note(&s->triggers, &t->cause, now)->snapshot = number;
		state_signs(s);
		if (t->coredump)
			jobs_explain(m->jobs, number, t->reason, t->coredump);
		return number;
	}
	switch (triggers_decide(&s->triggers, &t->cause, now, s->config->snapshot.min_interval_ns, &sign)) {
	case VERDICT_DUPLICATE:
		if (sign->snapshot)
			jobs_explain(m->jobs, sign->snapshot, reason, t->coredump);
		return sign->snapshot;
	case VERDICT_SUPPRESS:
		*ret_suppressed = true;
		telling_suppress(s, t);
		return 0;
	case VERDICT_FIRE:
		break;
	}
	n = triggers_take(&s->triggers, t->cause.kind);
	if (n && asprintf(&more, "%s (since the last snapshot for a cause of this kind, %llu were not saved)", reason,
			  (unsigned long long)n) >= 0)
		reason = more;
	if (jobs_add(m->jobs, s, trigger, reason, true, NULL, t->environment, NULL, NULL, NULL, &f) < 0) {
		journal_log(LOG_ERR,
			    &(JournalFields){ .message_id = MESSAGE_SNAPSHOT_FAILED,
					      .session = s->config->name,
					      .trigger = trigger,
					      .reason = reason,
					      .unit = t->cause.unit,
					      .pid = t->cause.pid },
			    "session '%s': no snapshot (%s): %s", s->config->name, reason, f.text);
		return 0;
	}
	sign->snapshot = jobs_number(m->jobs);
	state_session(s);
	state_signs(s);
	if (t->coredump)
		jobs_explain(m->jobs, sign->snapshot, t->reason, t->coredump);
	return sign->snapshot;
}

void telling_hear(Manager *m, Session *s, const Telling *t, bool wanted)
{
	bool suppressed;
	Sign *sign;

	if (wanted) {
		(void)telling_fire(m, s, t, &suppressed);
		return;
	}
	sign = triggers_find(&s->triggers, &t->cause, manager_now());
	if (sign && sign->snapshot)
		jobs_explain(m->jobs, sign->snapshot, t->reason, t->coredump);
}

void manager_settle_causes(Manager *m)
{
	for (Session *s = m->sessions; s; s = s->next) {
		for (u32 k = 0; k < CAUSE_KINDS; k++) {
			u64 n = triggers_settle(&s->triggers, k, manager_now(),
						s->config->snapshot.min_interval_ns);

			if (n)
				journal_log(LOG_NOTICE,
					    &(JournalFields){ .message_id = MESSAGE_SNAPSHOT_SUPPRESSED,
							      .session = s->config->name,
							      .trigger = cause_name(k) },
					    "session '%s': %llu more causes of kind '%s' came too soon after the "
					    "last snapshot and were not saved",
					    s->config->name, (unsigned long long)n, cause_name(k));
		}
	}
}
