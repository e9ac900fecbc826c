/* SPDX-License-Identifier: MIT */
/* What the manager watches beside programs, while somebody wants it: systemd's units, and core dumps in the journal. */
#include "daemon/manager-private.h"

#include <time.h>

#include "daemon/state.h"
#include "systemd/journal.h"

/* How long after a crash a core dump may come that is worth waking up for. */
#define EXPECT_NS (60 * NSEC_PER_SEC)
/* Entries that are so much older than the watch may be of the crash that it was begun for. */
#define BEFORE_USEC (5 * 1000 * 1000ull)

static void watch_units(Manager *m)
{
	bool wanted = false;
	int r;

	for (const Session *s = m->sessions; s && !wanted; s = s->next)
		wanted = s->config->snapshot.on_unit_failure.n > 0 ||
			 (m->blind && s->config->snapshot.on_crash);
	if (wanted && !m->units) {
		r = unit_watch_new(&m->units, m->event, manager_on_unit_failed, m);
		if (r < 0)
			log_warning("cannot watch units, so on_unit_failure has no effect: %s",
				    strerror(-r));
	} else if (!wanted && m->units) {
		m->units = unit_watch_free(m->units);
	}
}

static void watch_cores(Manager *m)
{
	bool wanted = m->cores_until > manager_now();
	int r;

	for (const Session *s = m->sessions; s && !wanted; s = s->next)
		wanted = s->config->snapshot.on_coredump;
	if (wanted && !m->cores) {
		r = core_watch_new(&m->cores, m->event, realtime_ns() / NSEC_PER_USEC - BEFORE_USEC, manager_on_core, m);
		if (r < 0)
			log_warning("cannot watch the journal for core dumps: %s", strerror(-r));
	} else if (!wanted && m->cores) {
		m->cores = core_watch_free(m->cores);
	}
}

void manager_say_units(Manager *m)
{
	char *failed = m->units ? unit_watch_failed(m->units) : NULL;

	if (!failed || (m->units_failed && strcmp(failed, m->units_failed) == 0)) {
		free(failed);
		return;
	}
	free(m->units_failed);
	m->units_failed = failed;
	state_units(m->ground.state, failed);
}

void manager_watch(Manager *m)
{
	watch_units(m);
	watch_cores(m);
}

void manager_expect_core(Manager *m)
{
	bool wanted = false;

	for (const Session *s = m->sessions; s && !wanted; s = s->next)
		wanted = s->config->snapshot.on_crash;
	if (wanted)
		m->cores_until = manager_now() + EXPECT_NS;
	watch_cores(m);
}
