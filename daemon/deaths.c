/* SPDX-License-Identifier: MIT */
/* Recorded programs that died lately. */
#include "daemon/deaths.h"

#include <stdio.h>

Dead *deaths_note(Deaths *d, const Producer *p, bool known, bool crash, u64 now)
{
	Dead *dead = &d->v[d->n++ % DEATHS_MAX];

	*dead = (Dead){ .pid = p->peer.pid,
			.uid = p->peer.uid,
			.start_time = p->peer.start_time,
			.cookie = { p->cookie[0], p->cookie[1] },
			.when = now,
			.known = known,
			.crash = crash };
	(void)snprintf(dead->command, sizeof(dead->command), "%s", p->peer.command);
	(void)snprintf(dead->unit, sizeof(dead->unit), "%s", p->peer.unit);
	for (const Attachment *a = p->attachments; a; a = a->next_of_producer) {
		const Session *s = a->owner->session;

		if (a->active && s && s->running)
			dead->generation[s->slot] = s->generation;
	}
	return dead;
}

static Dead *find(Deaths *d, pid_t pid, const char *unit, u64 now)
{
	for (u32 k = 0; k < MIN(d->n, (u32)DEATHS_MAX); k++) {
		Dead *dead = &d->v[(d->n - 1 - k) % DEATHS_MAX];

		if (now - dead->when > DEATHS_NS)
			break;
		if ((!pid || dead->pid == pid) && (!unit || strcmp(dead->unit, unit) == 0))
			return dead;
	}
	return NULL;
}

Dead *deaths_of_pid(Deaths *d, pid_t pid, u64 now)
{
	return find(d, pid, NULL, now);
}

Dead *deaths_of_unit(Deaths *d, const char *unit, pid_t main_pid, u64 now)
{
	return find(d, main_pid, unit, now);
}

bool dead_was_recorded(const Dead *dead, const Session *s)
{
	return s->running && dead->generation[s->slot] == s->generation;
}
