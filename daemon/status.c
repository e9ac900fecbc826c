/* SPDX-License-Identifier: MIT */
/* The line that `systemctl status tracer` shows: how many sessions run, how many programs are attached, what was saved last. */
#include "daemon/manager-private.h"

#include <stdio.h>

#include "systemd/notify.h"

/* A storm of programs that come and go is a storm of changes; a person reads one line. */
#define STATUS_GAP_USEC (1000 * 1000)

static void status_text(const Manager *m, char *ret, size_t size)
{
	u32 running = 0;

	for (const Session *s = m->sessions; s; s = s->next)
		running += s->running;
	(void)snprintf(ret, size, "%u of %u session%s running, %u program%s attached; last snapshot: %s",
		       running, m->n_sessions, m->n_sessions == 1 ? "" : "s", m->roster.n,
		       m->roster.n == 1 ? "" : "s", m->last_snapshot ? m->last_snapshot : "none yet");
}

void manager_status_say(Manager *m)
{
	char text[sizeof(m->status_said)];

	m->status_last = manager_now();
	status_text(m, text, sizeof(text));
	/* what changed may have changed back, and systemd announces every message on its own bus */
	if (strcmp(text, m->status_said) == 0)
		return;
	notify_status("%s", text);
	memcpy(m->status_said, text, sizeof(text));
}

static int status_on_time(sd_event_source *source, u64 usec, void *userdata)
{
	manager_status_say(userdata);
	return 0;
}

int manager_status_new(Manager *m)
{
	int r = sd_event_add_time_relative(m->event, &m->status, CLOCK_MONOTONIC, 0, 10000, status_on_time, m);

	return r < 0 ? r : sd_event_source_set_enabled(m->status, SD_EVENT_OFF);
}

void manager_status_changed(Manager *m)
{
	u64 since = (manager_now() - m->status_last) / NSEC_PER_USEC;
	int enabled = SD_EVENT_OFF;

	if (!m->status || sd_event_source_get_enabled(m->status, &enabled) < 0 || enabled != SD_EVENT_OFF)
		return;
	(void)sd_event_source_set_time_relative(m->status, since >= STATUS_GAP_USEC ? 0 : STATUS_GAP_USEC - since);
	(void)sd_event_source_set_enabled(m->status, SD_EVENT_ONESHOT);
}
