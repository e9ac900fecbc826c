/* SPDX-License-Identifier: MIT */
/* Why snapshots were taken. */
#include "daemon/reasons.h"

#include <stdio.h>

#include "systemd/journal.h"
#include "systemd/messages.h"

void reasons_add(char **reason, const char *more)
{
	char *both;

	if (!*reason) {
		*reason = strdup(more);
		return;
	}
	if (strlen(*reason) + strlen(more) + 2 > REASONS_MAX || asprintf(&both, "%s; %s", *reason, more) < 0)
		return;
	free(*reason);
	*reason = both;
}

static void saved_clear(Saved *s)
{
	free(s->session);
	free(s->path);
	free(s->trigger);
	free(s->unit);
	*s = (Saved){};
}

void reasons_clear(Reasons *r)
{
	for (u32 i = 0; i < REASONS_SAVED; i++)
		saved_clear(&r->v[i]);
}

void reasons_save(Reasons *r, const Saved *what)
{
	Saved *s = &r->v[r->n++ % REASONS_SAVED];

	saved_clear(s);
	*s = (Saved){ .number = what->number,
		      .session = strdup(what->session),
		      .path = strdup(what->path),
		      .trigger = strdup(what->trigger),
		      .unit = what->unit ? strdup(what->unit) : NULL,
		      .pid = what->pid };
	if (!s->session || !s->path || !s->trigger)
		saved_clear(s);
}

const char *reasons_path(const Reasons *r, u64 number)
{
	for (u32 i = 0; i < REASONS_SAVED; i++)
		if (r->v[i].number == number && r->v[i].path)
			return r->v[i].path;
	return "";
}

void reasons_say(const Reasons *r, u64 number, const char *more, const char *coredump)
{
	for (u32 i = 0; i < REASONS_SAVED; i++) {
		const Saved *s = &r->v[i];

		if (s->number != number || !s->path)
			continue;
		journal_log(LOG_NOTICE,
			    &(JournalFields){ .message_id = MESSAGE_SNAPSHOT_EXPLAINED,
					      .session = s->session,
					      .path = s->path,
					      .trigger = s->trigger,
					      .reason = more,
					      .unit = s->unit,
					      .pid = s->pid,
					      .coredump = coredump },
			    "session '%s': of snapshot %s: %s", s->session, s->path, more);
		return;
	}
}
