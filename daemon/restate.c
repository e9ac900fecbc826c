/* SPDX-License-Identifier: MIT */
/* All that a next daemon has to know, said anew: what is over is in it no more. */
#include "daemon/manager-private.h"
#include "daemon/state-owner.h"
#include "daemon/state-program.h"
#include "daemon/state-session.h"
#include "daemon/state.h"

void manager_restate(void *userdata)
{
	Manager *m = userdata;
	State *s = m->ground.state;

	state_machine(s, m->cpus, board_clock_uuid(m->ground.board));
	for (Session *i = m->sessions; i; i = i->next) {
		state_session_config(i);
		if (i->said)
			state_session_said(s, i->config->name, i->said);
		state_session(i);
		if (i->triggers.n)
			state_signs(i);
		for (Owner *o = i->owners; o; o = o->next) {
			state_owner(o);
			state_ids(o);
			for (const Described *d = o->described.first; d; d = d->next)
				if (d->dead)
					state_dead(o, d->what);
		}
	}
	for (Producer *p = roster_next(&m->roster, NULL); p; p = roster_next(&m->roster, p))
		state_program(s, p);
	if (m->units_failed)
		state_units(s, m->units_failed);
	jobs_state(m->jobs);
}
