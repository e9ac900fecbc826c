/* SPDX-License-Identifier: MIT */
#include "daemon/backing/leftovers.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "daemon/backing/recovery.h"
#include "daemon/backing/run.h"
#include "daemon/removal.h"
#include "daemon/retention.h"
#include "daemon/worker.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

/* Sentences about one run that the journal gets; all are in the trace. */
#define SENTENCES_MAX 20

/* Below the session's snapshots. */
#define WORKSHOP ".recovery"

typedef struct Look Look;
struct Look {
	Look *next;
	Leftovers *of;
	char *backing, *session, *snapshots;
	RetentionConfig keep;
	char after[64]; /* the last run that was looked at */

	/* the thread's, of one run */
	int found; /* as run_claim() */
	Run run;
	RecoveryResult result;
	Failure failure;
	int r;
	int removed; /* 0 or -errno */
	bool aside;
};

struct Leftovers {
	Worker *worker;
	LeftoversObserver observer;
	void *userdata;
	Look *first, **last;
};

static Look *look_free(Look *k)
{
	if (!k)
		return NULL;
	run_close(&k->run);
	recovery_clear(&k->result);
	free(k->backing);
	free(k->session);
	free(k->snapshots);
	free(k);
	return NULL;
}

/* ---- on the thread ---- */

/* It is made where no snapshot that is taken meanwhile takes it for what a dead daemon left, and then moved. */
static int look_publish(Look *k, int at)
{
	_cleanup_free_ char *from = NULL;

	if (asprintf(&from, WORKSHOP "/%s", k->result.name) < 0) {
		from = NULL;
		return -ENOMEM;
	}
	if (renameat2(at, from, at, k->result.name, RENAME_NOREPLACE) < 0 &&
	    ((errno != EINVAL && errno != ENOSYS) || renameat(at, from, at, k->result.name) < 0))
		return -errno;
	return fsync(at) < 0 ? -errno : 0;
}

static int look_write(Look *k)
{
	_cleanup_free_ char *workshop = NULL;
	_cleanup_close_ int at = -1;
	u64 size = removal_size(k->run.fd, ".");
	int r;

	if (asprintf(&workshop, "%s/" WORKSHOP, k->snapshots) < 0) {
		workshop = NULL;
		return failure_set(&k->failure, FAILURE_NO_MEMORY, "out of memory");
	}
	r = run_directories(workshop);
	if (r == 0)
		at = open(k->snapshots, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (at < 0)
		return failure_set(&k->failure, FAILURE_IO, "cannot make %s: %s", workshop, strerror(r < 0 ? -r : errno));
	/* half of it is what the rings held */
	if (!retention_room(k->snapshots, &k->keep, size / 2))
		return failure_set(&k->failure, FAILURE_NO_SPACE, "there is too little room in %s (snapshot.keep_free)",
				   k->snapshots);
	r = recovery_run(&(RecoveryOptions){ .dir_fd = k->run.fd,
					     .path = k->run.path,
					     .directory = workshop,
					     .beside = k->snapshots },
			 &k->result, &k->failure);
	if (r == 0) {
		r = look_publish(k, at);
		if (r < 0)
			r = failure_set(&k->failure, FAILURE_IO, "cannot make %s/%s: %s", k->snapshots, k->result.name,
					strerror(-r));
	}
	(void)removal_run(at, WORKSHOP, NULL);
	if (r == 0)
		(void)retention_limit(k->snapshots, &k->keep, NULL);
	return r;
}

static void look_work(void *userdata)
{
	Look *k = userdata;

	k->found = run_claim(&k->run, k->backing, k->session, k->after[0] ? k->after : NULL);
	if (k->found <= 0)
		return;
	(void)snprintf(k->after, sizeof(k->after), "%s", run_name(&k->run));
	k->r = look_write(k);
	k->removed = 0;
	k->aside = false;
	/* the trace is on disk: a power cut now finds it */
	if (k->r == 0 || (k->failure.kind == FAILURE_NOTHING && k->result.notes.n_damage == 0)) {
		k->removed = run_remove(&k->run);
	} else if (k->failure.kind == FAILURE_NOTHING) {
		k->aside = true;
		k->removed = run_set_aside(&k->run);
	}
}

/* ---- in the loop ---- */

static void time_text(u64 real_ns, char ret[48])
{
	time_t seconds = (time_t)(real_ns / NSEC_PER_SEC);
	char stamp[32];
	struct tm tm;

	(void)localtime_r(&seconds, &tm);
	(void)strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &tm);
	(void)snprintf(ret, 48, "%.30s.%03u", stamp, (unsigned)(real_ns % NSEC_PER_SEC / 1000000));
}

static void look_say_notes(const Look *k)
{
	const Notes *notes = &k->result.notes;

	for (size_t i = 0; i < MIN(notes->n, (size_t)SENTENCES_MAX); i++)
		journal_log(LOG_WARNING, &(JournalFields){ .message_id = MESSAGE_RECOVERED_PART, .session = k->session },
			    "session '%s': recovering %s: %s", k->session, k->run.path, notes->v[i]);
	if (notes->n > SENTENCES_MAX || notes->n_more)
		log_warning("session '%s': recovering %s: and %zu more", k->session, k->run.path,
			    notes->n - MIN(notes->n, (size_t)SENTENCES_MAX) + notes->n_more);
}

static void look_say(Look *k)
{
	Leftovers *l = k->of;
	_cleanup_free_ char *path = NULL;
	char until[48] = "the beginning";

	look_say_notes(k);
	if (k->r == 0 && asprintf(&path, "%s/%s", k->snapshots, k->result.name) < 0)
		path = NULL;
	if (path) {
		if (k->result.synced)
			time_text(k->result.synced, until);
		journal_log(LOG_NOTICE,
			    &(JournalFields){ .message_id = MESSAGE_RECOVERED, .session = k->session, .path = path,
					       .trigger = "recovered",
					       .reason = "the machine, or tracerd, ended while the session recorded" },
			    "session '%s': recovered %s: %" PRIu64 " records; everything up to %s%s, later ones as far as they "
			    "had reached the disk",
			    k->session, path, (uint64_t)k->result.snapshot.n_records, until,
			    k->result.notes.n_damage ? " but what is damaged" : "");
		if (l->observer.recovered)
			l->observer.recovered(l->userdata, k->session, path);
	} else if (k->aside) {
		journal_log(LOG_ERR, &(JournalFields){ .message_id = MESSAGE_RECOVERED_PART, .session = k->session },
			    "session '%s': nothing can be read of %s; it is kept for you to look at, and to remove", k->session,
			    k->run.path);
	} else if (k->r < 0 && k->failure.kind != FAILURE_NOTHING) {
		journal_log(LOG_ERR, &(JournalFields){ .message_id = MESSAGE_RECOVERED_PART, .session = k->session },
			    "session '%s': %s was not recovered: %s; it stays, and is tried again at the next start, or by: "
			    "tracerctl recover %s OUTPUT",
			    k->session, k->run.path, k->failure.text, k->run.path);
	}
	if (k->removed < 0)
		log_error("session '%s': %s: cannot be removed: %s", k->session, k->run.path, strerror(-k->removed));
}

static void leftovers_go_on(Leftovers *l);

static void look_done(void *userdata)
{
	Look *k = userdata;
	Leftovers *l = k->of;

	if (k->found > 0)
		look_say(k);
	else if (k->found < 0)
		log_error("session '%s': %s/%s cannot be looked at for what was left: %s", k->session, k->backing, k->session,
			  strerror(-k->found));
	run_close(&k->run);
	recovery_clear(&k->result);
	if (k->found <= 0) {
		l->first = k->next;
		if (!l->first)
			l->last = &l->first;
		(void)look_free(k);
	}
	leftovers_go_on(l);
}

static void leftovers_go_on(Leftovers *l)
{
	if (l->first && !worker_busy(l->worker))
		(void)worker_run(l->worker, look_work, look_done, l->first);
}

int leftovers_new(Leftovers **ret, sd_event *event, const LeftoversObserver *observer, void *userdata)
{
	Leftovers *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	r = worker_new(&l->worker, event);
	if (r < 0) {
		free(l);
		return r;
	}
	l->observer = *observer;
	l->userdata = userdata;
	l->last = &l->first;
	*ret = l;
	return 0;
}

Leftovers *leftovers_free(Leftovers *l)
{
	bool busy;

	if (!l)
		return NULL;
	busy = worker_busy(l->worker);
	l->worker = worker_free(l->worker);
	/* what the thread is at is its */
	for (Look *k = busy && l->first ? l->first->next : l->first, *next; k; k = next) {
		next = k->next;
		(void)look_free(k);
	}
	free(l);
	return NULL;
}

int leftovers_look(Leftovers *l, const char *backing, const char *session, const char *snapshots, const RetentionConfig *keep)
{
	Look *k = calloc(1, sizeof(*k));

	if (!k)
		return -ENOMEM;
	*k = (Look){ .of = l, .run = RUN_NULL, .keep = *keep };
	k->backing = strdup(backing);
	k->session = strdup(session);
	k->snapshots = strdup(snapshots);
	if (!k->backing || !k->session || !k->snapshots) {
		(void)look_free(k);
		return -ENOMEM;
	}
	*l->last = k;
	l->last = &k->next;
	leftovers_go_on(l);
	return 0;
}
