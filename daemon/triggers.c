/* SPDX-License-Identifier: MIT */
/* Causes of automatic snapshots, per session. */
#include "daemon/triggers.h"

#include <stdio.h>

/* Whether an earlier cause and this one are signs of the same death: the same process told of in two ways, or a unit that
 * failed because of the process of it that crashed (or the other way round). Two crashes of one unit are two. */
static bool same_death(const Triggers *t, u32 i, const Cause *c)
{
	const char *unit = t->recent[i].unit;

	if (c->kind == CAUSE_PROGRAM || t->recent[i].kind == CAUSE_PROGRAM)
		return false;
	if (c->pid && c->pid == t->recent[i].pid && c->start_time == t->recent[i].start_time)
		return true;
	return c->kind != t->recent[i].kind && c->unit && c->unit[0] && strcmp(c->unit, unit) == 0;
}

void triggers_note(Triggers *t, const Cause *cause, u64 now)
{
	u32 i = t->n++ % TRIGGER_RECENT;

	t->recent[i].kind = cause->kind;
	t->recent[i].pid = cause->pid;
	t->recent[i].start_time = cause->start_time;
	t->recent[i].when = now;
	(void)snprintf(t->recent[i].unit, sizeof(t->recent[i].unit), "%s",
		       cause->unit ? cause->unit : "");
}

Verdict triggers_decide(Triggers *t, const Cause *cause, u64 now, u64 min_interval_ns)
{
	for (u32 i = 0; i < MIN(t->n, (u32)TRIGGER_RECENT); i++)
		if (now - t->recent[i].when <= TRIGGER_SAME_NS && same_death(t, i, cause))
			return VERDICT_DUPLICATE;
	triggers_note(t, cause, now);
	if (t->last && now - t->last < min_interval_ns)
		return VERDICT_SUPPRESS;
	t->last = now;
	return VERDICT_FIRE;
}
