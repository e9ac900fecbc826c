/* SPDX-License-Identifier: MIT */
#include "daemon/state-program.h"

#include <stdio.h>

void state_program_name(char ret[40], u32 number)
{
	(void)snprintf(ret, 40, "program-%u", number);
}

void state_program(State *s, Producer *p)
{
	char name[40];
	Line *l;

	if (!state_kept(s))
		return;
	l = &s->line;
	line_begin(l, "program");
	line_number(l, "number", p->number);
	line_number(l, "pid", (u64)p->peer.pid);
	line_number(l, "uid", p->peer.uid);
	line_number(l, "start_time", p->peer.start_time);
	line_text(l, "command", p->peer.command);
	line_text(l, "unit", p->peer.unit);
	line_number(l, "vpid", p->description->vpid);
	line_text(l, "exe", p->description->exe);
	line_text(l, "build_id", p->description->build_id);
	line_bytes(l, "cookie", p->cookie, sizeof(p->cookie));
	line_number(l, "missed", p->missed);
	line_number(l, "failed", p->failed);
	for (const Attachment *a = p->attachments; a; a = a->next_of_producer)
		if (a->owner->session)
			line_number(l, a->active ? "active" : "in", a->owner->number);
	(void)state_say(s);
	/* How it ends while nobody is here is known to who has its pidfd, and to nobody else. For as many as there is room. */
	if (p->kept || !p->attachments || p->peer.pidfd < 0 || s->n_programs >= STATE_MAX_PROGRAMS ||
	    s->store.n + 16 >= s->store.max)
		return;
	state_program_name(name, p->number);
	if (fdstore_put(&s->store, name, p->peer.pidfd) == 0) {
		p->kept = true;
		s->n_programs++;
	}
}

void state_program_gone(State *s, Producer *p)
{
	char name[40];

	if (!state_kept(s))
		return;
	line_begin(&s->line, "program-gone");
	line_number(&s->line, "number", p->number);
	(void)state_say(s);
	if (!p->kept)
		return;
	state_program_name(name, p->number);
	fdstore_remove(&s->store, name);
	p->kept = false;
	s->n_programs--;
}
