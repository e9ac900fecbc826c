/* SPDX-License-Identifier: MIT */
/* Causes of automatic snapshots, per session. */
#include "daemon/triggers.h"

#include <stdio.h>

static const char *const names[CAUSE_KINDS] = {
	[CAUSE_CRASH] = "crash",	 [CAUSE_EXIT] = "exit", [CAUSE_DEATH] = "death",
	[CAUSE_COREDUMP] = "coredump", [CAUSE_UNIT] = "unit", [CAUSE_EVENT] = "event",
	[CAUSE_PROGRAM] = "program",
};

const char *cause_name(CauseKind kind)
{
	return names[kind];
}

static bool is_death(CauseKind kind)
{
	return kind != CAUSE_EVENT && kind != CAUSE_PROGRAM;
}

/* The same process told of in two ways. A core dump is told of by pid alone. */
static bool same_process(const Sign *s, const Cause *c)
{
	return c->pid && c->pid == s->pid &&
	       (c->start_time == s->start_time || !c->start_time || !s->start_time);
}

/* A unit that failed because of a process of it that died, or the other way round. Two deaths in one unit are two, also if
 * systemd was quicker with the first of them, and started the unit again. */
static bool same_unit(const Sign *s, const Cause *c)
{
	if ((c->kind == CAUSE_UNIT) == (s->kind == CAUSE_UNIT) || !c->unit || !c->unit[0] ||
	    strcmp(c->unit, s->unit) != 0)
		return false;
	return c->kind == CAUSE_UNIT || !s->pid || s->pid == c->pid;
}

Sign *triggers_find(Triggers *t, const Cause *c, u64 now)
{
	if (!is_death(c->kind))
		return NULL;
	/* newest first: in a loop of deaths, a unit's failure belongs to the last one */
	for (u32 k = 0; k < MIN(t->n, (u32)TRIGGER_RECENT); k++) {
		Sign *s = &t->recent[(t->n - 1 - k) % TRIGGER_RECENT];

		if (!is_death(s->kind))
			continue;
		if (now - s->when <= TRIGGER_PROCESS_NS && same_process(s, c)) {
			s->when = now; /* the unit fails when the process is gone, not when it began to die */
			return s;
		}
		if (now - s->when <= TRIGGER_UNIT_NS && same_unit(s, c)) {
			if (!s->pid) {
				s->pid = c->pid;
				s->start_time = c->start_time;
			}
			return s;
		}
	}
	return NULL;
}

Sign *triggers_note(Triggers *t, const Cause *cause, u64 now)
{
	Sign *s = &t->recent[t->n++ % TRIGGER_RECENT];

	*s = (Sign){ .kind = cause->kind,
		     .pid = cause->pid,
		     .start_time = cause->start_time,
		     .when = now };
	(void)snprintf(s->unit, sizeof(s->unit), "%s", cause->unit ? cause->unit : "");
	return s;
}

Verdict triggers_decide(Triggers *t, const Cause *cause, u64 now, u64 min_interval_ns, Sign **ret)
{
	u64 last = t->of[cause->kind].last;

	*ret = triggers_find(t, cause, now);
	if (*ret)
		return VERDICT_DUPLICATE;
	*ret = triggers_note(t, cause, now);
	if (last && now - last < min_interval_ns) {
		t->of[cause->kind].suppressed++;
		t->of[cause->kind].unsaid++;
		t->of[cause->kind].total++;
		return VERDICT_SUPPRESS;
	}
	t->of[cause->kind].last = now;
	return VERDICT_FIRE;
}

u64 triggers_take(Triggers *t, CauseKind kind)
{
	u64 n = t->of[kind].suppressed;

	t->of[kind].suppressed = t->of[kind].unsaid = 0;
	return n;
}

u64 triggers_settle(Triggers *t, CauseKind kind, u64 now, u64 min_interval_ns)
{
	u64 n = t->of[kind].unsaid;

	if (now - t->of[kind].last < min_interval_ns)
		return 0;
	t->of[kind].unsaid = 0;
	return n;
}

void triggers_reset(Triggers *t)
{
	for (u32 i = 0; i < CAUSE_KINDS; i++)
		t->of[i].total = t->of[i].suppressed = t->of[i].unsaid = 0;
}
