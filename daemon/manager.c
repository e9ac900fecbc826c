/* SPDX-License-Identifier: MIT */
/* The whole daemon behind the bus: its birth, its sessions, its end. */
#include "daemon/locks.h"
#include "daemon/manager-private.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "systemd/journal.h"
#include "systemd/messages.h"

#define SESSIONS_MAX 1024
/* CPUs that appear, users to forget, a counter that was reset: seldom things, looked at seldom. */
#define TICK_USEC (5 * 1000 * 1000)
/* At the end of the daemon, for the snapshots of on_stop: less than TimeoutStopSec= of the unit. */
#define STOP_NS (45 * NSEC_PER_SEC)

u64 manager_now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (u64)ts.tv_sec * NSEC_PER_SEC + (u64)ts.tv_nsec;
}

void manager_session_changed(Manager *m, Session *s)
{
	if (m->observer.session_changed)
		m->observer.session_changed(m->userdata, s);
}

/* ---- sessions ---- */

Session *manager_find(Manager *m, const char *name)
{
	Session *s = m->sessions;

	while (s && strcmp(s->config->name, name) != 0)
		s = s->next;
	return s;
}

Session *manager_first(Manager *m)
{
	return m->sessions;
}

Session *manager_next(Manager *m, Session *s)
{
	return s->next;
}

u32 manager_n_sessions(Manager *m)
{
	return m->n_sessions;
}

int manager_add_session(Manager *m, SessionConfig *config, Session **ret, Failure *f)
{
	Session *s, **at;
	int r;

	if (manager_find(m, config->name))
		return failure_set(f, FAILURE_SESSION_EXISTS,
				   "session '%s' exists; remove it first, or use another name",
				   config->name);
	if (m->n_sessions >= SESSIONS_MAX)
		return failure_set(f, FAILURE_LIMIT, "there are %u sessions, which is all there can be",
				   m->n_sessions);
	r = session_new(&s, &m->ground, config, f);
	if (r < 0)
		return r;
	for (at = &m->sessions; *at && strcmp((*at)->config->name, config->name) < 0;)
		at = &(*at)->next;
	s->next = *at;
	*at = s;
	m->n_sessions++;
	manager_watch_units(m);
	if (m->observer.session_added)
		m->observer.session_added(m->userdata, s);
	*ret = s;
	return 0;
}

void manager_drop_session(Manager *m, Session *s)
{
	_cleanup_free_ char *name = strdup(s->config->name);

	jobs_forget(m->jobs, s);
	for (Session **at = &m->sessions; *at; at = &(*at)->next) {
		if (*at != s)
			continue;
		*at = s->next;
		break;
	}
	m->n_sessions--;
	(void)session_free(s);
	if (name && m->observer.session_removed)
		m->observer.session_removed(m->userdata, name);
	manager_watch_units(m);
}

static int manager_get(Manager *m, const char *name, Session **ret, Failure *f)
{
	*ret = manager_find(m, name);
	if (*ret)
		return 0;
	return failure_set(f, FAILURE_NO_SUCH_SESSION,
			   "there is no session '%s'; ListSessions (tracerctl list) names those "
			   "there are",
			   name);
}

int manager_create_session(Manager *m, SessionConfig *config, Session **ret, Failure *f)
{
	_cleanup_(session_config_freep) SessionConfig *copy = NULL;
	_cleanup_free_ char *text = NULL;
	Session *s;
	int r;

	if (!config_session_name_valid(config->name))
		return failure_set(f, FAILURE_INVALID,
				   "a session's name has 1 to 64 bytes of UTF-8, none of them '/', "
				   "':' or a control character, and does not begin with '.'");
	r = session_config_check(config, &text);
	if (r < 0)
		return failure_set(f, r == -ENOMEM ? FAILURE_NO_MEMORY : FAILURE_INVALID, "%s",
				   text ? text : strerror(-r));
	/* a copy, so that the caller's is its own until nothing can fail */
	copy = session_config_copy(config);
	if (!copy)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	r = manager_add_session(m, copy, &s, f);
	if (r < 0)
		return r;
	copy = NULL;
	if (config->autostart) {
		r = session_start(s, f);
		if (r < 0) {
			manager_drop_session(m, s);
			return r;
		}
		manager_session_changed(m, s);
	}
	(void)session_config_free(config);
	if (ret)
		*ret = s;
	return 0;
}

int manager_remove_session(Manager *m, const char *name, Failure *f)
{
	Session *s;
	int r = manager_get(m, name, &s, f);

	if (r < 0)
		return r;
	manager_drop_session(m, s);
	return 0;
}

int manager_start_session(Manager *m, const char *name, Failure *f)
{
	Session *s;
	int r = manager_get(m, name, &s, f);

	if (r == 0)
		r = session_start(s, f);
	if (r == 0)
		manager_session_changed(m, s);
	return r;
}

int manager_stop_session(Manager *m, const char *name, Failure *f)
{
	Session *s;
	int r = manager_get(m, name, &s, f);

	if (r < 0)
		return r;
	r = session_stop(s, f);
	if (r < 0)
		return r;
	/* the mask is down, so the snapshot has all of it */
	if (s->config->on_stop == ON_STOP_SNAPSHOT && s->n_owners) {
		Failure ignored = FAILURE_NULL;

		if (jobs_add(m->jobs, s, "stop", "session stopped", false, NULL, NULL, NULL, NULL,
			     NULL, &ignored) < 0)
			log_error("session '%s': no snapshot at its stop: %s", name, ignored.text);
	}
	manager_session_changed(m, s);
	return 0;
}

int manager_clear_session(Manager *m, const char *name, Failure *f)
{
	Session *s;
	int r = manager_get(m, name, &s, f);

	if (r == 0)
		r = session_clear(s, f);
	if (r == 0)
		manager_session_changed(m, s);
	return r;
}

int manager_set_events(Manager *m, const char *name, const Strings *events, Failure *f)
{
	_cleanup_(session_config_freep) SessionConfig *config = NULL;
	_cleanup_free_ char *text = NULL;
	ConfigValue value = { .type = CONFIG_STRINGS, .strings = *events };
	Session *s;
	int r = manager_get(m, name, &s, f);

	if (r < 0)
		return r;
	config = session_config_copy(s->config);
	if (!config)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	r = session_config_set(config, "events", &value, &text);
	if (r == 0)
		r = session_config_check(config, &text);
	if (r < 0)
		return failure_set(f, r == -ENOMEM ? FAILURE_NO_MEMORY : FAILURE_INVALID, "%s",
				   text ? text : strerror(-r));
	r = session_configure(s, config, f);
	if (r < 0)
		return r;
	config = NULL;
	manager_session_changed(m, s);
	return 0;
}

int manager_snapshot(Manager *m, const char *name, const char *trigger, const char *reason,
		     const SnapshotOptions *options, SnapshotDone done, void *userdata, char **ret_path,
		     Failure *f)
{
	Session *s;
	int r = manager_get(m, name, &s, f);

	if (r < 0)
		return r;
	for (const char *p = trigger; *p; p++)
		if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '-') ||
		    p - trigger >= 32)
			return failure_set(f, FAILURE_INVALID,
					   "a trigger is a word of at most 32 of a-z, 0-9 and '-'");
	return jobs_add(m->jobs, s, trigger, reason, false, options, NULL, done, userdata, ret_path, f);
}

static void manager_on_snapshot(void *userdata, Session *s, const char *session, const char *reason,
				const char *path)
{
	Manager *m = userdata;

	if (s)
		manager_session_changed(m, s);
	if (path && m->observer.snapshot_completed)
		m->observer.snapshot_completed(m->userdata, session, reason, path);
}

void manager_observe(Manager *m, const ManagerObserver *observer, void *userdata)
{
	m->observer = observer ? *observer : (ManagerObserver){};
	m->userdata = userdata;
}

void manager_watch_units(Manager *m)
{
	bool wanted = false;
	int r;

	for (const Session *s = m->sessions; s && !wanted; s = s->next)
		wanted = s->config->snapshot.on_unit_failure.n > 0;
	if (wanted && !m->units) {
		r = unit_watch_new(&m->units, m->event, manager_on_unit_failed, m);
		if (r < 0)
			log_warning("cannot watch units, so on_unit_failure has no effect: %s",
				    strerror(-r));
	} else if (!wanted && m->units) {
		m->units = unit_watch_free(m->units);
	}
}

/* ---- the seldom things ---- */

static void manager_meet_cpu(Manager *m, u32 cpu)
{
	u32 ring = m->cpus->n_rings;
	bool complete = true;

	for (Session *s = m->sessions; s; s = s->next)
		complete &= session_add_ring(s, ring) == 0;
	/* Its number is taken either way: rings made from now on have it, and those that could not get it
	 * are holes that would be filled behind the limits' back. So the map is set only if all have it. */
	if (cpus_add(m->cpus, cpu) < 0)
		return;
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

static int manager_on_tick(sd_event_source *source, u64 usec, void *userdata)
{
	Manager *m = userdata;
	u32 cpus[16], n = cpus_appeared(m->cpus, cpus, ELEMENTSOF(cpus));

	for (u32 i = 0; i < n; i++)
		manager_meet_cpu(m, cpus[i]);
	for (Session *s = m->sessions; s; s = s->next)
		for (Owner *o = s->owners; o; o = o->next)
			locks_check(o, &m->roster);
	manager_check_clock(m);
	account_sweep(m->ground.account, manager_now());
	(void)sd_event_source_set_time_relative(source, TICK_USEC);
	return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* ---- birth ---- */

int manager_apply_daemon(Manager *m, DaemonConfig *daemon)
{
	AccountLimits limits = {
		.total = { [CHARGE_CONNECTIONS] = LISTENER_MAX_CONNECTIONS,
			   [CHARGE_PRODUCERS] = daemon->max_producers,
			   [CHARGE_MEMORY] = daemon->max_memory },
		.per_user = { [CHARGE_CONNECTIONS] = LISTENER_MAX_CONNECTIONS_PER_USER,
			      [CHARGE_PRODUCERS] = daemon->max_producers_per_user,
			      [CHARGE_CLASSES] = daemon->max_classes_per_user,
			      [CHARGE_MEMORY] = daemon->max_memory_per_user },
	};
	char *directory = NULL;

	if (daemon->snapshot_directory)
		directory = strdup(daemon->snapshot_directory);
	else if (asprintf(&directory, "%s/snapshots", m->state_directory) < 0)
		directory = NULL;
	if (!directory)
		return -ENOMEM;
	free(m->ground.snapshot_directory);
	m->ground.snapshot_directory = directory;
	account_set_limits(m->ground.account, &limits);
	if (m->listener)
		listener_set_timeout(m->listener, daemon->sync_timeout_ns);
	m->daemon = *daemon;
	m->daemon.snapshot_directory = NULL;
	return 0;
}

static int directory_open(const char *path, mode_t mode)
{
	int fd;

	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void problems_log(const ConfigProblems *problems)
{
	for (size_t i = 0; i < problems->n; i++) {
		const ConfigProblem *p = &problems->v[i];
		_cleanup_free_ char *text = config_problem_text(p);

		journal_log(p->warning ? LOG_WARNING : LOG_ERR,
			    p->warning ? NULL :
					 &(JournalFields){ .message_id = MESSAGE_CONFIG_REJECTED,
							   .path = p->file },
			    "%s", text ? text : p->text);
	}
}

static void manager_start_configured(Manager *m, Config *config)
{
	for (size_t i = 0; i < config->n_sessions; i++) {
		Failure f = FAILURE_NULL;
		Session *s;

		if (manager_add_session(m, config->sessions[i], &s, &f) < 0) {
			log_error("%s", f.text);
			continue;
		}
		config->sessions[i] = NULL; /* taken */
		if (s->config->autostart && session_start(s, &f) < 0)
			log_error("%s", f.text);
	}
	/* what is left for config_free() has no holes */
	for (size_t i = 0, n = config->n_sessions; i < n; i++) {
		if (i == 0)
			config->n_sessions = 0;
		if (config->sessions[i])
			config->sessions[config->n_sessions++] = config->sessions[i];
	}
}

static int manager_copy_options(Manager *m, const ManagerOptions *o)
{
	size_t n = 0;

	m->user = o->user;
	m->runtime_directory = strdup(o->runtime_directory);
	m->state_directory = strdup(o->state_directory);
	if (!m->runtime_directory || !m->state_directory)
		return -ENOMEM;
	if (o->config_file && !(m->config_file = strdup(o->config_file)))
		return -ENOMEM;
	if (!o->config_directories)
		return 0;
	while (o->config_directories[n])
		n++;
	m->config_directories = calloc(n + 1, sizeof(char *));
	if (!m->config_directories)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (!(m->config_directories[i] = strdup(o->config_directories[i])))
			return -ENOMEM;
	return 0;
}

static int manager_listen(Manager *m, int fd)
{
	if (fd < 0) {
		fd = listener_bind(m->runtime_fd);
		if (fd < 0) {
			log_error("%s/producer.sock: %s", m->runtime_directory, strerror(-fd));
			return fd;
		}
		m->bound = true;
	}
	return listener_new(&m->listener, m->event, fd, &m->ground, m->daemon.sync_timeout_ns,
			    &manager_programs, m);
}

/* A descriptor for every producer, session's rings and connection. */
static void descriptors_raise(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur >= l.rlim_max)
		return;
	l.rlim_cur = l.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &l);
}

static int manager_open(Manager *m, Config *config, int listen_fd)
{
	static const JobsObserver jobs_observer = { .finished = manager_on_snapshot };
	Failure f = FAILURE_NULL, warning = FAILURE_NULL;
	int r;

	m->runtime_fd = directory_open(m->runtime_directory, 0755);
	if (m->runtime_fd < 0) {
		log_error("%s: %s", m->runtime_directory, strerror(-m->runtime_fd));
		return m->runtime_fd;
	}
	m->cpus = calloc(1, sizeof(*m->cpus));
	if (!m->cpus)
		return -ENOMEM;
	r = cpus_init(m->cpus);
	if (r < 0)
		return r;
	m->ground.cpus = m->cpus;
	r = account_new(&m->ground.account);
	if (r < 0)
		return r;
	r = classes_new(&m->ground.classes, m->ground.account);
	if (r < 0)
		return r;
	r = manager_apply_daemon(m, &config->daemon);
	if (r < 0)
		return r;
	r = board_open(&m->ground.board, m->runtime_fd, m->daemon.clock, m->cpus, &warning, &f);
	if (r < 0) {
		log_error("%s: %s", m->runtime_directory, f.text);
		return r;
	}
	if (warning.kind != FAILURE_NONE)
		log_error("%s", warning.text);
	r = jobs_new(&m->jobs, m->event, &m->ground, &jobs_observer, m);
	if (r < 0)
		return r;
	r = roster_init(&m->roster);
	if (r < 0)
		return r;
	r = sd_event_add_time_relative(m->event, &m->tick, CLOCK_MONOTONIC, TICK_USEC,
				       1000 * 1000, manager_on_tick, m);
	if (r < 0)
		return r;
	return manager_listen(m, listen_fd);
}

int manager_new(Manager **ret, sd_event *event, const ManagerOptions *options)
{
	_cleanup_close_ int listen_fd = options->listen_fd;
	_cleanup_(manager_freep) Manager *m = calloc(1, sizeof(*m));
	_cleanup_(config_freep) Config *config = NULL;
	ConfigProblems problems = {};
	int r;

	if (!m)
		return -ENOMEM;
	m->event = sd_event_ref(event);
	m->runtime_fd = -1;
	r = manager_copy_options(m, options);
	if (r < 0)
		return r;
	descriptors_raise();
	if (m->config_file)
		r = config_read_file(m->config_file, &config, &problems);
	else
		r = config_read(m->config_directories ? (const char *const *)m->config_directories :
							config_default_directories,
				&config, &problems);
	problems_log(&problems);
	config_problems_clear(&problems);
	if (!config)
		return r < 0 ? r : -ENOMEM;
	r = manager_open(m, config, steal_fd(listen_fd));
	if (r < 0)
		return r;
	manager_start_configured(m, config);
	*ret = steal_ptr(m);
	return 0;
}

/* ---- the end ---- */

static void manager_end_sessions(Manager *m)
{
	for (Session *s = m->sessions; s; s = s->next) {
		Failure f = FAILURE_NULL;

		if (!s->running)
			continue;
		(void)session_stop(s, NULL);
		if (s->config->on_stop == ON_STOP_SNAPSHOT && s->n_owners &&
		    jobs_add(m->jobs, s, "stop", "the daemon stopped", false, NULL, NULL, NULL, NULL,
			     NULL, &f) < 0)
			log_error("session '%s': no snapshot at its stop: %s", s->config->name, f.text);
	}
	jobs_drain(m->jobs, STOP_NS);
}

Manager *manager_free(Manager *m)
{
	if (!m)
		return NULL;
	m->units = m->units ? unit_watch_free(m->units) : NULL;
	m->tick = sd_event_source_disable_unref(m->tick);
	m->bump = sd_event_source_disable_unref(m->bump);
	m->listener = listener_free(m->listener);
	if (m->bound)
		(void)unlinkat(m->runtime_fd, "producer.sock", 0);
	if (m->jobs)
		manager_end_sessions(m);
	m->jobs = jobs_free(m->jobs);
	if (m->roster.by_pid)
		manager_forget_programs(m);
	while (m->sessions) {
		Session *s = m->sessions;

		m->sessions = s->next;
		(void)session_free(s);
	}
	roster_clear(&m->roster);
	m->ground.board = board_free(m->ground.board);
	m->ground.classes = classes_free(m->ground.classes);
	m->ground.account = account_free(m->ground.account);
	free(m->ground.snapshot_directory);
	free(m->cpus);
	free(m->events);
	free(m->listed);
	for (size_t i = 0; m->config_directories && m->config_directories[i]; i++)
		free(m->config_directories[i]);
	free(m->config_directories);
	free(m->config_file);
	free(m->runtime_directory);
	free(m->state_directory);
	m->runtime_fd = close_fd(m->runtime_fd);
	m->event = sd_event_unref(m->event);
	free(m);
	return NULL;
}
