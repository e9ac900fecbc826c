/* SPDX-License-Identifier: MIT */
/* The manager's birth and end. */
#include "daemon/manager-private.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "daemon/state.h"
#include "daemon/takeover.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

/* At the end of the daemon, for the snapshots of on_stop: less than TimeoutStopSec= of the unit. */
#define STOP_NS (45 * NSEC_PER_SEC)
/* Then for what sessions have still to write; all together are less than TimeoutStopSec=. */
#define WRITE_NS (30 * NSEC_PER_SEC)
/* Then for the last pass of what is kept for a machine that dies. */
#define BACK_NS (10 * NSEC_PER_SEC)

static void manager_on_trace(void *userdata, Session *s, const char *session, const char *path, u64 n_records)
{
	Manager *m = userdata;

	if (s)
		manager_session_changed(m, s);
	if (m->observer.trace_completed)
		m->observer.trace_completed(m->userdata, session, path, n_records);
}

static void manager_on_writing(void *userdata, Session *s)
{
	manager_session_changed(userdata, s);
}

static void manager_on_snapshot(void *userdata, Session *s, const char *session, const char *reason,
				const char *path)
{
	Manager *m = userdata;

	if (path) {
		free(m->last_snapshot);
		m->last_snapshot = strdup(path);
		manager_status_changed(m);
	}
	if (s)
		manager_session_changed(m, s);
	if (path && m->observer.snapshot_completed)
		m->observer.snapshot_completed(m->userdata, session, reason, path);
}

/* A snapshot that a daemon before this one would have taken, had it lived. */
static void manager_on_recovered(void *userdata, const char *session, const char *path)
{
	Manager *m = userdata;
	Session *s = manager_find(m, session);

	if (s && !s->last_snapshot)
		s->last_snapshot = strdup(path);
	manager_on_snapshot(m, s, session, "recovered", path);
}

/* Each takes a descriptor, and half of all stay for connections, rings and, above all, snapshots: a crowd of programs must
 * not cost a crash its evidence. */
static u64 producers_possible(u64 wanted)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur == RLIM_INFINITY || wanted <= l.rlim_cur / 2)
		return wanted;
	log_notice("daemon.max_producers = %llu, but with %llu descriptors (LimitNOFILE=) %llu can be had",
		   (unsigned long long)wanted, (unsigned long long)l.rlim_cur,
		   (unsigned long long)l.rlim_cur / 2);
	return l.rlim_cur / 2;
}

int manager_apply_daemon(Manager *m, DaemonConfig *daemon)
{
	AccountLimits limits = {
		.total = { [CHARGE_CONNECTIONS] = LISTENER_MAX_CONNECTIONS,
			   [CHARGE_PRODUCERS] = producers_possible(daemon->max_producers),
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
	if (!m->ground.trace_directory &&
	    asprintf(&m->ground.trace_directory, "%s/traces", m->state_directory) < 0) {
		m->ground.trace_directory = NULL;
		free(directory);
		return -ENOMEM;
	}
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

/* The state goes on where the last one was, or begins. */
static int manager_keep(Manager *m, Takeover *t)
{
	State *s;
	int r = state_new(&s, steal_ptr(t->ledger), t->passed ? passed_take(t->passed, "marks") : -1, t->n_stored,
			  manager_restate, m);

	if (r < 0)
		return r;
	m->ground.state = s;
	s->quiet = true;
	takeover_apply(t, m);
	s->quiet = false;
	/* if nothing is known yet, before it is used; the rest once all is as it will be */
	if (t->n_stored == 0)
		state_renew(s);
	state_watch_faults(s);
	m->born = manager_now();
	return 0;
}

static int manager_open(Manager *m, Config *config, Takeover *t, int listen_fd)
{
	static const JobsObserver jobs_observer = { .finished = manager_on_snapshot };
	static const LeftoversObserver leftovers_observer = { .recovered = manager_on_recovered };
	Failure f = FAILURE_NULL, warning = FAILURE_NULL;
	int r;

	/* before there are threads that a copy of the process would lack */
	m->blind = !death_is_told();
	m->writings = (Writings){ .event = m->event,
				  .observer = { .completed = manager_on_trace, .changed = manager_on_writing },
				  .userdata = m };
	m->ground.writings = &m->writings;
	m->backings = (Backings){ .event = m->event, .observer = { .changed = manager_on_writing }, .userdata = m };
	m->ground.backings = &m->backings;
	r = leftovers_new(&m->leftovers, m->event, &leftovers_observer, m);
	if (r < 0)
		return r;
	m->ground.leftovers = m->leftovers;
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
	takeover_slots(t);
	if (t->restored.cpu_of && cpus_adopt(m->cpus, t->restored.cpu_of, t->restored.n_cpus) < 0)
		t->kept.slots = 0;
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
	r = board_open(&m->ground.board, m->runtime_fd, m->daemon.clock, m->cpus, &t->kept, &warning, &f);
	if (r < 0) {
		log_error("%s: %s", m->runtime_directory, f.text);
		return r;
	}
	if (warning.kind != FAILURE_NONE)
		log_error("%s", warning.text);
	r = jobs_new(&m->jobs, m->event, &m->ground, &jobs_observer, m);
	if (r < 0) {
		log_error("the thread that saves snapshots cannot be had: %s", strerror(-r));
		return r;
	}
	r = roster_init(&m->roster);
	if (r < 0)
		return r;
	r = sd_event_add_time_relative(m->event, &m->tick, CLOCK_MONOTONIC, MANAGER_TICK_USEC,
				       1000 * 1000, manager_on_tick, m);
	if (r < 0)
		return r;
	r = manager_status_new(m);
	if (r < 0)
		return r;
	r = manager_keep(m, t);
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
	Takeover t;
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
	takeover_begin(&t, options->passed, m->state_directory);
	r = manager_open(m, config, &t, steal_fd(listen_fd));
	if (r == 0) {
		manager_apply_sessions(m, config, true);
		/* units that fail while nobody watches fail all the same */
		if (m->units && t.restored.units_failed)
			unit_watch_known(m->units, t.restored.units_failed);
		takeover_mourn(&t, m);
		state_begin(m->ground.state);
	}
	takeover_end(&t, m);
	if (r < 0)
		return r;
	/* before READY=1, so that who waited for the start reads it */
	manager_status_say(m);
	*ret = steal_ptr(m);
	return 0;
}

/* ---- the end ---- */

void manager_leave(Manager *m)
{
	m->leaving = true;
}

/* The next daemon has the rings; what is on disk of them stays until it has written its own. */
static bool session_not_saved(const Session *s)
{
	return false;
}

/* Snapshots that are due are taken, what was taken from rings is written; programs record on. */
static void manager_leave_sessions(Manager *m)
{
	jobs_drain(m->jobs, STOP_NS);
	state_leave(m->ground.state);
	m->ground.leaving = true;
	writings_leave(&m->writings, WRITE_NS);
	backings_end(&m->backings, BACK_NS, session_not_saved);
}

/* Its rings are on disk as a snapshot: the backing would be the same once more. */
static bool session_saved(const Session *s)
{
	static const char tail[] = "-stop";
	size_t n = s->last_snapshot ? strlen(s->last_snapshot) : 0;

	return s->config->on_stop == ON_STOP_SNAPSHOT && n > sizeof(tail) &&
	       strcmp(s->last_snapshot + n - (sizeof(tail) - 1), tail) == 0;
}

static void manager_end_sessions(Manager *m)
{
	state_end(m->ground.state);
	for (Session *s = m->sessions; s; s = s->next) {
		Failure f = FAILURE_NULL;

		s->start_wanted = false;
		if (!s->running)
			continue;
		(void)session_stop(s, NULL, NULL, NULL);
		/* for session_saved(): not one of before */
		free(s->last_snapshot);
		s->last_snapshot = NULL;
		if (s->config->on_stop == ON_STOP_SNAPSHOT && s->n_owners &&
		    jobs_add(m->jobs, s, "stop", "the daemon stopped", true, NULL, NULL, NULL, NULL,
			     NULL, &f) < 0)
			log_error("session '%s': no snapshot at its stop: %s", s->config->name, f.text);
	}
	jobs_drain(m->jobs, STOP_NS);
	/* what they wrote meanwhile, they need not write now */
	writings_end(&m->writings, WRITE_NS);
	backings_end(&m->backings, BACK_NS, session_saved);
}

Manager *manager_free(Manager *m)
{
	if (!m)
		return NULL;
	m->units = m->units ? unit_watch_free(m->units) : NULL;
	m->cores = core_watch_free(m->cores);
	m->tick = sd_event_source_disable_unref(m->tick);
	m->retry = sd_event_source_disable_unref(m->retry);
	m->status = sd_event_source_disable_unref(m->status);
	m->listener = listener_free(m->listener);
	if (m->bound)
		(void)unlinkat(m->runtime_fd, "producer.sock", 0);
	if (m->jobs && m->leaving)
		manager_leave_sessions(m);
	else if (m->jobs)
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
	/* a thread that hangs in a disk may come back and look before the process is gone; sessions are off the board already */
	m->leftovers = leftovers_free(m->leftovers);
	if (!m->writings.hang && !m->backings.hang) {
		m->ground.board = m->leaving ? board_leave(m->ground.board) : board_free(m->ground.board);
		m->ground.classes = classes_free(m->ground.classes);
		m->ground.account = account_free(m->ground.account);
		free(m->cpus);
	}
	m->ground.state = state_free(m->ground.state);
	free(m->ground.snapshot_directory);
	free(m->ground.trace_directory);
	free(m->events);
	free(m->listed);
	for (size_t i = 0; m->config_directories && m->config_directories[i]; i++)
		free(m->config_directories[i]);
	free(m->config_directories);
	free(m->units_failed);
	free(m->config_file);
	free(m->last_snapshot);
	free(m->runtime_directory);
	free(m->state_directory);
	m->runtime_fd = close_fd(m->runtime_fd);
	m->event = sd_event_unref(m->event);
	free(m);
	return NULL;
}
