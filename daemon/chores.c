/* SPDX-License-Identifier: MIT */
/* CPUs that appear, locks of threads that are gone, a counter that was reset, users to forget: seldom things, looked at
 * seldom. */
#include "daemon/locks.h"
#include "daemon/manager-private.h"

#include "daemon/state.h"
#include "daemon/takeover.h"
#include "systemd/journal.h"

/* Tasks of other pid namespaces that one tick looks at: some 50 ms at most. */
#define TICK_TASKS 4096

static void manager_meet_cpu(Manager *m, u32 cpu)
{
	u32 ring = m->cpus->n_rings;
	bool complete = true;

	/* more than the kernel called possible: no region has an address for it */
	if (ring >= m->cpus->n_possible)
		return;
	for (Session *s = m->sessions; s; s = s->next)
		complete &= session_add_ring(s, ring) == 0;
	/* Its number is taken either way: rings made from now on have it, and those that could not get it
	 * are holes that would be filled behind the limits' back. So the map is set only if all have it. */
	if (cpus_add(m->cpus, cpu) < 0)
		return;
	state_machine(m->ground.state, m->cpus, board_clock_uuid(m->ground.board));
	if (complete)
		board_cpu_ring(m->ground.board, cpu, (u16)ring);
	else
		log_warning("CPU %u came online, but there is no memory for its rings; it shares "
			    "the side rings",
			    cpu);
}

static void manager_check_clock(Manager *m)
{
	struct record_clock clock = board_clock(m->ground.board);
	u64 now = record_clock_now(&clock);

	if (now < m->clock_last) {
		log_warning("the clock went back by %llu ns (the counter was reset by a suspend); "
			    "all sessions begin with empty rings",
			    (unsigned long long)(m->clock_last - now));
		for (Session *s = m->sessions; s; s = s->next)
			if (session_clear(s, NULL) == 0)
				manager_session_changed(m, s);
	}
	m->clock_last = now;
}

int manager_on_tick(sd_event_source *source, u64 usec, void *userdata)
{
	Manager *m = userdata;
	u32 budget = TICK_TASKS;
	u32 cpus[16], n = cpus_appeared(m->cpus, cpus, ELEMENTSOF(cpus));

	for (u32 i = 0; i < n; i++)
		manager_meet_cpu(m, cpus[i]);
	for (Session *s = m->sessions; s; s = s->next) {
		session_sweep(s);
		if (session_back_again(s))
			manager_session_changed(m, s);
		if (s->backing)
			backing_describe(s->backing);
		for (Owner *o = s->owners; o; o = o->next)
			locks_check(o, &m->roster, &budget);
	}
	for (Producer *p = roster_next(&m->roster, NULL), *next; p; p = next) {
		next = roster_next(&m->roster, p);
		(void)producer_check(p);
	}
	manager_check_clock(m);
	state_catch_up(m->ground.state);
	if (m->born && manager_now() - m->born > TAKEOVER_HEALTHY_NS) {
		state_healthy(m->ground.state);
		m->born = 0;
	}
	manager_settle_causes(m);
	manager_watch(m);
	manager_say_units(m);
	account_sweep(m->ground.account, manager_now());
	(void)sd_event_source_set_time_relative(source, MANAGER_TICK_USEC);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}
