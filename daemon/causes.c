/* SPDX-License-Identifier: MIT */
/* Causes of automatic snapshots. A death is told of in several ways, at different times: by the dying program's own
 * handler, by its pidfd, by systemd, by the journal. The first sign takes the snapshot, the others explain it. */
#include "daemon/manager-private.h"
#include "daemon/telling.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "lib/pattern.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

/* ---- deaths ---- */

/* Who dies: a program that the manager knows, or has let go of. */
typedef struct {
	pid_t pid;
	u64 start_time;
	const char *command, *unit;
	const Producer *producer; /* or: */
	const Dead *dead;
} Victim;

static Victim victim_of_producer(const Producer *p)
{
	return (Victim){ p->peer.pid, p->peer.start_time, p->peer.command, p->peer.unit, p, NULL };
}

static Victim victim_of_dead(const Dead *d)
{
	return (Victim){ d->pid, d->start_time, d->command, d->unit, NULL, d };
}

static bool victim_was_recorded(const Victim *v, const Session *s)
{
	return v->producer ? session_records(s, v->producer) : dead_was_recorded(v->dead, s);
}

static void victim_describe(const Victim *v, char *ret, size_t size)
{
	if (v->unit[0])
		(void)snprintf(ret, size, "%d %s (%s)", (int)v->pid, v->command, v->unit);
	else
		(void)snprintf(ret, size, "%d %s", (int)v->pid, v->command);
}

static bool is_wanted(const SnapshotConfig *c, CauseKind kind)
{
	switch (kind) {
	case CAUSE_CRASH:
		return c->on_crash;
	case CAUSE_EXIT:
		return c->on_exit_failure;
	case CAUSE_DEATH:
		return c->on_unknown_death;
	case CAUSE_COREDUMP:
		return c->on_coredump;
	default:
		return false;
	}
}

/* kinds: what the death is called, in falling weight; a session takes the first that it wants. */
static void victim_tell(Manager *m, const Victim *v, const CauseKind kinds[2], const char *how, int signal,
			const char *coredump)
{
	_cleanup_free_ char *reason = NULL;
	char who[400], pid[16], number[16];
	const char *environment[] = { "pid", pid, "command", v->command, NULL, NULL, NULL, NULL, NULL };
	Telling t = { .environment = environment, .coredump = coredump };
	u32 n = 4;

	victim_describe(v, who, sizeof(who));
	if (asprintf(&reason, "%s %s", who, how) < 0) {
		reason = NULL;
		return;
	}
	t.reason = reason;
	(void)snprintf(pid, sizeof(pid), "%d", (int)v->pid);
	(void)snprintf(number, sizeof(number), "%d", signal);
	if (signal) {
		environment[n++] = "signal";
		environment[n++] = number;
	}
	if (v->unit[0]) {
		environment[n++] = "unit";
		environment[n] = v->unit;
	}
	for (Session *s = m->sessions; s; s = s->next) {
		const SnapshotConfig *c = &s->config->snapshot;
		CauseKind kind = is_wanted(c, kinds[0]) ? kinds[0] : kinds[1];

		if (!victim_was_recorded(v, s))
			continue;
		t.cause = (Cause){ kind, v->pid, v->start_time, v->unit };
		telling_hear(m, s, &t, is_wanted(c, kind));
	}
}

/* That it crashed was told already, and there is nothing to add but the time: its unit fails from now on. */
static void victim_is_gone(Manager *m, const Victim *v)
{
	const Cause cause = { CAUSE_CRASH, v->pid, v->start_time, v->unit };

	for (Session *s = m->sessions; s; s = s->next)
		(void)triggers_find(&s->triggers, &cause, manager_now());
}

/* Once for each crash, whoever tells of it first. */
static void crash_say(Manager *m, const Victim *v, const char *how)
{
	char who[400];

	victim_describe(v, who, sizeof(who));
	journal_log(LOG_NOTICE,
		    &(JournalFields){ .message_id = MESSAGE_PRODUCER_CRASHED,
				      .unit = v->unit[0] ? v->unit : NULL,
				      .command = v->command,
				      .pid = v->pid },
		    "%s %s", who, how);
	if (m->observer.producer_crashed)
		m->observer.producer_crashed(m->userdata, v->pid, v->command, v->unit);
}

static const CauseKind is_crash[2] = { CAUSE_CRASH, CAUSE_CRASH };
static const CauseKind is_exit[2] = { CAUSE_EXIT, CAUSE_EXIT };
static const CauseKind is_unknown[2] = { CAUSE_DEATH, CAUSE_DEATH };
static const CauseKind is_coredump[2] = { CAUSE_COREDUMP, CAUSE_COREDUMP };
static const CauseKind is_crash_by_coredump[2] = { CAUSE_CRASH, CAUSE_COREDUMP };

/* Not long ago: who caught a signal and lived on, may die of something else. */
static bool crash_was_said(const Producer *p)
{
	return p->crashed && manager_now() - p->crashed <= TRIGGER_PROCESS_NS;
}

/* Any signal counts but those that end a program in order (death_is_crash). Where the kernel does not say how a program ended,
 * being gone is no crash: only what its handler, systemd or a core dump says makes it one, before or later. */
void manager_on_death(Manager *m, const Producer *p, const Death *death)
{
	bool said = crash_was_said(p), crash = death_is_crash(death) || (!death->known && said);
	const Victim v = victim_of_producer(p);
	char how[64];

	(void)deaths_note(&m->deaths, p, death->known, crash, manager_now());
	death_describe(death, how, sizeof(how));
	if (!death->known)
		manager_expect_core(m);
	if (crash) {
		if (!said)
			crash_say(m, &v, how);
		if (death->known && WCOREDUMP(death->status))
			manager_expect_core(m);
		if (death->known)
			victim_tell(m, &v, is_crash, how, WTERMSIG(death->status), NULL);
		else
			victim_is_gone(m, &v);
	} else if (!death->known) {
		victim_tell(m, &v, is_unknown, "is gone, and nothing says how it ended", 0, NULL);
	} else if (WIFEXITED(death->status) && WEXITSTATUS(death->status) != 0) {
		victim_tell(m, &v, is_exit, how, 0, NULL);
	}
}

/* Somebody else than the kernel says that a program died by a signal. */
static void crash_by_evidence(Manager *m, Producer *p, Dead *dead, const CauseKind kinds[2], const char *how, int signal,
			      const char *coredump)
{
	const Victim v = p ? victim_of_producer(p) : victim_of_dead(dead);
	bool news = p ? !crash_was_said(p) : !dead->known && !dead->crash;

	if (news && kinds[0] == CAUSE_CRASH) {
		if (p)
			p->crashed = manager_now();
		else
			dead->crash = true;
		crash_say(m, &v, how);
	}
	victim_tell(m, &v, kinds, how, signal, coredump);
}

/* The program itself, in the handler of a fault: its rings are as they were, and nothing else knows yet. */
void manager_on_notice(Manager *m, Producer *p, Dead *dead, const struct wire_crash *notice)
{
	const char *name = sigabbrev_np((int)notice->signal);
	char how[160], address[48] = "";

	if (!name)
		return; /* no fault of any kind */
	if (notice->address)
		(void)snprintf(address, sizeof(address), " at address 0x%llx", (unsigned long long)notice->address);
	(void)snprintf(how, sizeof(how), "caught signal %u (SIG%s)%s in thread %u", notice->signal, name, address,
		       notice->vtid);
	crash_by_evidence(m, p, dead, is_crash, how, (int)notice->signal, NULL);
	if (p)
		p->crashed = manager_now();
	/* behind the snapshot, which this turn of the loop begins */
	manager_expect_core(m);
}

/* ---- units ---- */

/* Results that a unit has when a process of it was ended by a signal. */
static bool result_is_signal(const char *result)
{
	static const char *const results[] = { "signal", "core-dump", "oom-kill", "watchdog", "timeout" };

	for (size_t i = 0; i < ELEMENTSOF(results); i++)
		if (strcmp(result, results[i]) == 0)
			return true;
	return false;
}

/* A death that the kernel did not explain, of the unit's main process: systemd, which is its parent, does. On kernels that do
 * not tell who reaped, systemd may even speak before the daemon gives up waiting for a status. */
static void unit_is_evidence(Manager *m, const char *unit, const char *result, pid_t main_pid)
{
	u64 now = manager_now();
	Dead *dead = deaths_of_unit(&m->deaths, unit, main_pid, now);
	char how[400];

	(void)snprintf(how, sizeof(how), "died by a signal, as unit %s failed: %s", unit, result);
	if (dead && !dead->known && !dead->crash && now - dead->when <= TRIGGER_UNIT_NS) {
		crash_by_evidence(m, NULL, dead, is_crash, how, 0, NULL);
		return;
	}
	for (Producer *p = roster_next(&m->roster, NULL); p; p = roster_next(&m->roster, p))
		if (p->grace && !crash_was_said(p) && strcmp(p->peer.unit, unit) == 0 &&
		    (!main_pid || p->peer.pid == main_pid)) {
			crash_by_evidence(m, p, NULL, is_crash, how, 0, NULL);
			return;
		}
}

/* A process of it is a zombie: systemd speaks before it reaps, and then the kernel says how it ended. */
static bool unit_is_dying(Manager *m, const char *unit)
{
	for (const Producer *p = roster_next(&m->roster, NULL); p; p = roster_next(&m->roster, p))
		if (p->grace && strcmp(p->peer.unit, unit) == 0)
			return true;
	return false;
}

static bool unit_wanted(const Session *s, const char *unit)
{
	const Strings *globs = &s->config->snapshot.on_unit_failure;

	for (size_t i = 0; i < globs->n; i++)
		if (pattern_match(globs->v[i], unit))
			return true;
	return false;
}

static void unit_failed(Manager *m, const char *unit, const char *result, pid_t main_pid)
{
	char reason[400], pid[16];
	const char *environment[] = { "unit", unit, "result", result, main_pid ? "pid" : NULL, pid, NULL };
	const Telling t = { .cause = { .kind = CAUSE_UNIT, .pid = main_pid, .unit = unit }, .reason = reason,
			    .environment = environment };

	(void)snprintf(pid, sizeof(pid), "%d", (int)main_pid);
	if (result_is_signal(result))
		unit_is_evidence(m, unit, result, main_pid);
	(void)snprintf(reason, sizeof(reason), "unit %s failed: %s", unit, result);
	for (Session *s = m->sessions; s; s = s->next)
		if (s->running)
			telling_hear(m, s, &t, unit_wanted(s, unit));
}

/* The death first, whatever it was, so that the unit's failure is a sign of it and not the other way round. It is known within
 * DEATH_GRACE_USEC, or never will be. */
void manager_on_unit_failed(void *userdata, const char *unit, const char *result, pid_t main_pid)
{
	Manager *m = userdata;

	if (!m->blind && m->n_failed < ELEMENTSOF(m->failed) && unit_is_dying(m, unit)) {
		FailedUnit *u = &m->failed[m->n_failed];

		*u = (FailedUnit){ .main_pid = main_pid };
		(void)snprintf(u->unit, sizeof(u->unit), "%s", unit);
		(void)snprintf(u->result, sizeof(u->result), "%s", result);
		m->n_failed++;
		return;
	}
	unit_failed(m, unit, result, main_pid);
	manager_say_units(m);
}

void manager_release_units(Manager *m)
{
	u32 n = m->n_failed, kept = 0;

	for (u32 i = 0; i < n; i++) {
		const FailedUnit u = m->failed[i];

		if (unit_is_dying(m, u.unit))
			m->failed[kept++] = u;
		else
			unit_failed(m, u.unit, u.result, u.main_pid);
	}
	m->n_failed = kept;
}

static bool unit_was_recorded(Manager *m, const Session *s, const char *unit)
{
	const Dead *dead = deaths_of_unit(&m->deaths, unit, 0, manager_now());

	if (dead && dead_was_recorded(dead, s))
		return true;
	for (const Producer *p = roster_next(&m->roster, NULL); p; p = roster_next(&m->roster, p))
		if (strcmp(p->peer.unit, unit) == 0 && session_records(s, p))
			return true;
	return false;
}

/* An administrator's own sign that a unit has failed. Where nobody recorded the unit, what the rest of the machine did is what
 * there is. */
u32 manager_report_unit(Manager *m, const char *unit, const char *reason, UnitSaved saved, void *userdata)
{
	const char *environment[] = { "unit", unit, NULL };
	const Telling t = { .cause = { .kind = CAUSE_UNIT, .unit = unit }, .reason = reason,
			    .environment = environment };
	bool any = false;
	u32 n = 0;

	for (Session *s = m->sessions; s && !any; s = s->next)
		any = s->running && unit_was_recorded(m, s, unit);
	for (Session *s = m->sessions; s; s = s->next) {
		bool suppressed;
		u64 number;

		if (!s->running || !s->n_owners || (any && !unit_was_recorded(m, s, unit)))
			continue;
		number = telling_fire(m, s, &t, &suppressed);
		if (number) {
			saved(userdata, s->config->name, jobs_path(m->jobs, number));
			n++;
		}
	}
	return n;
}

/* ---- core dumps ---- */

void manager_on_core(void *userdata, const CoreDump *c)
{
	Manager *m = userdata;
	Producer *p = roster_find(&m->roster, c->pid);
	Dead *dead = deaths_of_pid(&m->deaths, c->pid, manager_now());
	const char *name = sigabbrev_np(c->signal);
	bool explains;
	char how[sizeof(c->file) + 64];

	if (p && dead)
		p = NULL; /* the number has gone to another one since */
	if (!p && !dead)
		return;
	explains = p ? !crash_was_said(p) : !dead->known && !dead->crash;
	(void)snprintf(how, sizeof(how), "dumped core on signal %d (SIG%s)%s%s", c->signal, name ? name : "?",
		       c->file[0] ? ": " : "", c->file);
	crash_by_evidence(m, p, dead, explains ? is_crash_by_coredump : is_coredump, how, c->signal,
			  c->file[0] ? c->file : NULL);
}

/* ---- what programs say ---- */

bool manager_is_trigger(const Session *s, const Class *class)
{
	const Strings *patterns = &s->config->snapshot.on_event;
	const struct event_class *c = class->class;

	for (size_t i = 0; i < patterns->n; i++)
		if (pattern_match_event(patterns->v[i], c->provider, c->name))
			return scope_wants_event(&s->scope, c->provider, c->name, c->level);
	return false;
}

void manager_on_event(Manager *m, const Producer *p, const Class *class)
{
	const Victim who = victim_of_producer(p);
	char reason[1024], name[400], event[512], pid[16];
	const char *environment[] = { "pid", pid, "command", p->peer.command, "event", event, NULL, NULL, NULL };
	const Telling t = { .cause = { CAUSE_EVENT, p->peer.pid, p->peer.start_time, p->peer.unit },
			    .reason = reason, .environment = environment };

	victim_describe(&who, name, sizeof(name));
	(void)snprintf(event, sizeof(event), "%s:%s", class->class->provider, class->class->name);
	(void)snprintf(reason, sizeof(reason), "event %s of %s", event, name);
	(void)snprintf(pid, sizeof(pid), "%d", (int)p->peer.pid);
	if (p->peer.unit[0]) {
		environment[6] = "unit";
		environment[7] = p->peer.unit;
	}
	for (Session *s = m->sessions; s; s = s->next)
		if (session_records(s, p) && manager_is_trigger(s, class))
			telling_hear(m, s, &t, true);
}

u32 manager_on_request(Manager *m, const Producer *p, const char *reason, u32 *ret_suppressed)
{
	char pid[16];
	const char *environment[] = { "pid", pid, "command", p->peer.command, "unit", p->peer.unit, NULL };
	const Telling t = { .cause = { CAUSE_PROGRAM, p->peer.pid, p->peer.start_time, p->peer.unit },
			    .reason = reason, .environment = environment };
	u32 n = 0;

	*ret_suppressed = 0;
	(void)snprintf(pid, sizeof(pid), "%d", (int)p->peer.pid);
	if (!p->peer.unit[0])
		environment[4] = NULL;
	for (Session *s = m->sessions; s; s = s->next) {
		bool suppressed = false;

		if (!session_records(s, p))
			continue;
		n += telling_fire(m, s, &t, &suppressed) != 0;
		*ret_suppressed += suppressed;
	}
	return n;
}
