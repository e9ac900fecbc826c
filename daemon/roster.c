/* SPDX-License-Identifier: MIT */
/* The programs the daemon knows. */
#include "daemon/roster.h"

/* Limits keep producers to some thousands; chains stay short, and a pid is no one's to choose. */
#define ROSTER_BUCKETS 4096

int roster_init(Roster *r)
{
	*r = (Roster){ .n_buckets = ROSTER_BUCKETS };
	r->by_pid = calloc(r->n_buckets, sizeof(*r->by_pid));
	return r->by_pid ? 0 : -ENOMEM;
}

void roster_clear(Roster *r)
{
	free(r->by_pid);
	*r = (Roster){};
}

static u32 roster_bucket(const Roster *r, pid_t pid)
{
	return (u32)pid & (r->n_buckets - 1);
}

Producer *roster_find(const Roster *r, pid_t pid)
{
	Producer *p = r->by_pid[roster_bucket(r, pid)];

	while (p && p->peer.pid != pid)
		p = p->next;
	return p;
}

u32 roster_number(Roster *r)
{
	for (;;) {
		const Producer *p = NULL;
		u32 n = ++r->last_number;

		if (n == 0)
			continue;
		/* Numbers came around only after four thousand million programs; look then, not before. */
		while ((p = roster_next(r, p)) && p->number != n)
			;
		if (!p)
			return n;
	}
}

void roster_add(Roster *r, Producer *p)
{
	Producer **bucket = &r->by_pid[roster_bucket(r, p->peer.pid)];

	p->next = *bucket;
	*bucket = p;
	r->n++;
}

void roster_remove(Roster *r, Producer *p)
{
	for (Producer **at = &r->by_pid[roster_bucket(r, p->peer.pid)]; *at; at = &(*at)->next) {
		if (*at != p)
			continue;
		*at = p->next;
		p->next = NULL;
		r->n--;
		return;
	}
}

Producer *roster_next(const Roster *r, const Producer *p)
{
	u32 i = 0;

	if (p) {
		if (p->next)
			return p->next;
		i = roster_bucket(r, p->peer.pid) + 1;
	}
	for (; i < r->n_buckets; i++)
		if (r->by_pid[i])
			return r->by_pid[i];
	return NULL;
}
