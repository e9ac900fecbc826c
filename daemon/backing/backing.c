/* SPDX-License-Identifier: MIT */
/* The thread has everything below `dir` and the images; the loop has owners and their ids. Between them lie, under the lock, the
 * list of owners and what is said. An owner that goes is marked by the loop; the thread takes its files away, puts it on the list
 * of those it let go, and wakes the loop, which alone counts references. A thread that hangs in its disk keeps what it has. */
#include "daemon/backing/backing.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>

#include "daemon/backing/image.h"
#include "daemon/backing/run.h"
#include "daemon/capture.h"
#include "daemon/session.h"
#include "systemd/journal.h"
#include "systemd/messages.h"

/* Daemons in a row that may die before one has a pass on disk; what more of them left is recovered as if the machine had died. */
#define RUNS_BEFORE 8

/* Programs of one owner that are told of when one comes, and not only now and then. */
#define DESCRIBED_AT_ONCE 64

/* One owner's rings. */
typedef struct Backed Backed;
struct Backed {
	Backed *next;
	Owner *owner;  /* the loop's reference; the thread uses the mapping that it keeps */
	Image *image;  /* owned; the thread's, but for its glossary */
	/* ids that the glossary knows; the loop's */
	u32 n_told;
	u64 told[(ABI_ID_MAX + 64) / 64];
	u64 n_described; /* changes of its programs that were told; the loop's */
	Descriptions programs; /* the newest, unless the thread has taken it: v is NULL; guarded by the lock */
	bool retired;  /* guarded by the lock */
};

struct Backing {
	Backing *next;
	Backings *set;
	Session *session; /* NULL: gone */
	char *name, *buffers, *path;
	struct record_clock clock;
	u8 clock_uuid[16];
	u32 n_owners; /* that were ever added: a number for each one's files */
	sd_event_source *source;
	char said[512]; /* the trouble that the journal has */
	int event_fd;	/* the thread adds 1: look at what it has said */
	bool has_thread;
	pthread_t thread;

	pthread_mutex_t lock;
	pthread_cond_t wake, ended_wake;
	/* guarded by the lock */
	Backed *owners, *released;
	u64 interval_ns;
	bool hurry; /* look at once */
	bool quit, drop; /* end; and take everything away */
	bool ended;
	bool locked; /* what went before is: others may look at what else there is */
	BackingInfo info;   /* but for its trouble */
	char trouble[512];

	/* the thread's, but for its birth */
	bool goes_on;
	Run before[RUNS_BEFORE]; /* of daemons whose rings these are */
	u32 n_before;
	Run run;
	u64 until; /* trace clock: all owners are durable up to then */
	ImageCounters counters;
};

/* ---- the thread ---- */

static void backing_notify(Backing *b)
{
	u64 one = 1;

	while (write(b->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* Takes those that go out of the list, and their files away. */
static void thread_retire(Backing *b)
{
	Backed *gone = NULL, *last = NULL;

	(void)pthread_mutex_lock(&b->lock);
	for (Backed **p = &b->owners, *x; (x = *p);) {
		if (!x->retired) {
			p = &x->next;
			continue;
		}
		*p = x->next;
		x->next = gone;
		gone = x;
	}
	(void)pthread_mutex_unlock(&b->lock);
	if (!gone)
		return;
	for (Backed *x = gone; x; x = x->next) {
		if (b->run.fd >= 0)
			(void)image_remove(x->image, b->run.fd);
		last = x;
	}
	(void)pthread_mutex_lock(&b->lock);
	last->next = b->released;
	b->released = gone;
	(void)pthread_mutex_unlock(&b->lock);
	backing_notify(b);
}

static Backed *thread_next(Backing *b, const Backed *after)
{
	Backed *x;

	/* only this thread takes one out */
	(void)pthread_mutex_lock(&b->lock);
	for (x = after ? after->next : b->owners; x && x->retired;)
		x = x->next;
	(void)pthread_mutex_unlock(&b->lock);
	return x;
}

/* What went wrong with which step, for the one sentence that is said of it. */
static int thread_copy(Backing *b, const char **ret_what)
{
	bool made = false;
	struct stat st;
	int r = 0;

	/* somebody took it away: it is made again, with all that the rings hold now */
	if (b->run.fd >= 0 && fstat(b->run.fd, &st) == 0 && st.st_nlink == 0) {
		for (Backed *x = NULL; (x = thread_next(b, x));)
			image_reset(x->image);
		run_close(&b->run);
		b->until = 0;
	}
	*ret_what = "cannot be made";
	if (b->run.fd < 0)
		r = run_make(&b->run, b->path,
			     &(RunSession){ .session = b->name,
					    .buffers = b->buffers,
					    .clock = b->clock,
					    .clock_uuid = b->clock_uuid });
	if (r < 0)
		return r;
	*ret_what = "cannot be written";
	for (Backed *x = NULL; (x = thread_next(b, x));) {
		Descriptions programs;
		int k;

		(void)pthread_mutex_lock(&b->lock);
		programs = x->programs;
		x->programs = (Descriptions){};
		(void)pthread_mutex_unlock(&b->lock);
		if (programs.v)
			image_describe(x->image, &programs);
		k = image_pass(x->image, b->run.fd, b->until, &made, &b->counters);

		/* the others' rings may have room yet */
		if (k < 0 && r == 0)
			r = k;
	}
	/* new names: without them what is durable is not found */
	if (made && fsync(b->run.fd) < 0 && r == 0)
		r = -errno;
	return r;
}

/* They hold what these rings held: until that is on disk anew nobody makes traces of them. */
static void thread_lock_before(Backing *b)
{
	char after[64] = "";
	Run run;

	while (b->n_before < RUNS_BEFORE && run_claim(&run, b->path, b->name, after[0] ? after : NULL) > 0) {
		(void)snprintf(after, sizeof(after), "%s", run_name(&run));
		if (run_of_this_boot(&run))
			b->before[b->n_before++] = run;
		else
			run_close(&run);
	}
	(void)pthread_mutex_lock(&b->lock);
	b->locked = true;
	(void)pthread_mutex_unlock(&b->lock);
	backing_notify(b);
}

/* What stays is taken for what a machine that died has left: it comes back as a trace at the next start. */
static void thread_remove(const Backing *b, Run *run)
{
	int r = run_remove(run);

	if (r < 0 && r != -ENOENT)
		log_warning("session '%s': %s cannot be removed: %s; the next tracerd makes a trace of it, unless somebody removes it",
			    b->name, run->path, strerror(-r));
}

static void thread_forget_before(Backing *b, bool remove)
{
	while (b->n_before > 0) {
		Run *run = &b->before[--b->n_before];

		if (remove)
			thread_remove(b, run);
		else
			run_close(run);
	}
}

static void thread_pass(Backing *b)
{
	u64 begun = record_clock_now(&b->clock), offset = capture_realtime_offset(&b->clock);
	char trouble[512] = "";
	const char *what;
	bool changed;
	int r;

	thread_retire(b);
	r = thread_copy(b, &what);
	if (r == 0)
		b->until = begun;
	if (r == 0)
		thread_forget_before(b, true);
	else
		(void)snprintf(trouble, sizeof(trouble), "backing: %.300s/%.100s %s: %s; programs go on recording, and it is tried again",
			       b->path, b->name, what, strerror(-r));
	(void)pthread_mutex_lock(&b->lock);
	changed = strcmp(trouble, b->trouble) != 0;
	memcpy(b->trouble, trouble, sizeof(trouble));
	if (r == 0)
		b->info.synced = begun + offset;
	b->info.written = b->counters.bytes;
	b->info.missed = b->counters.missed;
	(void)pthread_mutex_unlock(&b->lock);
	if (changed)
		backing_notify(b);
}

static void *thread_main(void *userdata)
{
	Backing *b = userdata;
	bool drop;

	if (b->goes_on)
		thread_lock_before(b);
	(void)pthread_mutex_lock(&b->lock);
	while (!b->quit) {
		struct timespec until;
		u64 ns;

		(void)clock_gettime(CLOCK_MONOTONIC, &until);
		ns = (u64)until.tv_nsec + b->interval_ns;
		until.tv_sec += (time_t)(ns / NSEC_PER_SEC);
		until.tv_nsec = (long)(ns % NSEC_PER_SEC);
		b->hurry = false;
		(void)pthread_mutex_unlock(&b->lock);
		thread_pass(b);
		(void)pthread_mutex_lock(&b->lock);
		while (!b->quit && !b->hurry && pthread_cond_timedwait(&b->wake, &b->lock, &until) == 0)
			;
	}
	drop = b->drop;
	(void)pthread_mutex_unlock(&b->lock);
	if (drop && b->run.fd >= 0)
		thread_remove(b, &b->run);
	else if (!drop)
		thread_pass(b);
	/* no pass was durable: they are still the newest that there is */
	thread_forget_before(b, drop);
	(void)pthread_mutex_lock(&b->lock);
	b->ended = true;
	(void)pthread_cond_broadcast(&b->ended_wake);
	(void)pthread_mutex_unlock(&b->lock);
	backing_notify(b);
	return NULL;
}

/* ---- the loop ---- */

static Backed *backed_free(Backed *x)
{
	if (!x)
		return NULL;
	(void)image_free(x->image);
	descriptions_clear(&x->programs);
	if (x->owner) {
		owner_unpin(x->owner);
		(void)owner_unref(x->owner);
	}
	free(x);
	return NULL;
}

static void backed_free_all(Backed *x)
{
	for (Backed *next; x; x = next) {
		next = x->next;
		(void)backed_free(x);
	}
}

static void backing_unlink(Backing *b)
{
	for (Backing **p = &b->set->first; *p; p = &(*p)->next) {
		if (*p != b)
			continue;
		*p = b->next;
		break;
	}
	if (b->session)
		b->session->backing = NULL;
	b->session = NULL;
}

/* The thread has ended, or never was. */
static void backing_free(Backing *b)
{
	backing_unlink(b);
	if (b->has_thread)
		(void)pthread_join(b->thread, NULL);
	b->source = sd_event_source_disable_unref(b->source);
	backed_free_all(b->owners);
	backed_free_all(b->released);
	run_close(&b->run);
	(void)pthread_mutex_destroy(&b->lock);
	(void)pthread_cond_destroy(&b->wake);
	(void)pthread_cond_destroy(&b->ended_wake);
	(void)close_fd(b->event_fd);
	free(b->name);
	free(b->buffers);
	free(b->path);
	free(b);
}

static void backing_say(Backing *b, const char *trouble)
{
	if (strcmp(trouble, b->said) == 0)
		return;
	(void)snprintf(b->said, sizeof(b->said), "%s", trouble);
	if (trouble[0])
		journal_log(LOG_ERR, &(JournalFields){ .message_id = MESSAGE_BACKING_FAILED, .session = b->name },
			    "session '%s': %s", b->name, trouble);
	else
		journal_log(LOG_NOTICE, &(JournalFields){ .message_id = MESSAGE_BACKING_RESUMED, .session = b->name },
			    "session '%s': backing goes on", b->name);
	if (b->session && b->set->observer.changed)
		b->set->observer.changed(b->set->userdata, b->session);
}

static int backing_on_event(sd_event_source *source, int fd, u32 revents, void *userdata)
{
	Backing *b = userdata;
	char trouble[512];
	Backed *released;
	bool ended, locked;
	u64 n;

	if (read(fd, &n, sizeof(n)) != sizeof(n))
		return 0;
	(void)pthread_mutex_lock(&b->lock);
	released = b->released;
	b->released = NULL;
	ended = b->ended;
	locked = b->locked;
	b->locked = false;
	memcpy(trouble, b->trouble, sizeof(trouble));
	(void)pthread_mutex_unlock(&b->lock);
	backed_free_all(released);
	if (locked && b->session)
		session_look_back(b->session);
	if (b->session)
		backing_say(b, trouble);
	if (ended)
		backing_free(b);
	return 0;
}

static int backing_start(Backing *b)
{
	sigset_t all, before;
	int r;

	b->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->event_fd < 0)
		return -errno;
	r = sd_event_add_io(b->set->event, &b->source, b->event_fd, EPOLLIN, backing_on_event, b);
	if (r < 0)
		return r;
	/* signals are the loop's */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = -pthread_create(&b->thread, NULL, thread_main, b);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	b->has_thread = r == 0;
	return r;
}

int backing_new(Backing **ret, Backings *set, Session *s, const char *path, u64 interval_ns, bool goes_on)
{
	const Ground *ground = s->ground;
	Backing *b = calloc(1, sizeof(*b));
	pthread_condattr_t attr;
	int r;

	if (!b)
		return -ENOMEM;
	b->set = set;
	b->event_fd = -1;
	b->run = RUN_NULL;
	b->interval_ns = interval_ns;
	b->goes_on = goes_on;
	b->clock = board_clock(ground->board);
	memcpy(b->clock_uuid, board_clock_uuid(ground->board), sizeof(b->clock_uuid));
	b->name = strdup(s->config->name);
	b->buffers = strdup(buffers_name(s->config->buffers));
	b->path = strdup(path);
	(void)pthread_mutex_init(&b->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&b->wake, &attr);
	(void)pthread_cond_init(&b->ended_wake, &attr);
	(void)pthread_condattr_destroy(&attr);
	b->next = set->first;
	set->first = b;
	r = b->name && b->buffers && b->path ? backing_start(b) : -ENOMEM;
	if (r < 0) {
		backing_free(b);
		return r;
	}
	b->session = s;
	*ret = b;
	return 0;
}

static Backed *backing_find(Backing *b, const Owner *o)
{
	Backed *x;

	(void)pthread_mutex_lock(&b->lock);
	for (x = b->owners; x && (x->owner != o || x->retired);)
		x = x->next;
	(void)pthread_mutex_unlock(&b->lock);
	return x;
}

bool backing_has(Backing *b, const Owner *o)
{
	return backing_find(b, o) != NULL;
}

static int backed_tell(Backed *x)
{
	const Ids *ids = &x->owner->ids;

	/* pinned, so that none is taken back; those that were before are given again only when there are no others */
	for (u32 id = ids->n > ABI_ID_MAX ? 1 : MAX(x->n_told, 1u); id < ids->n; id++) {
		const IdEntry *e = ids_entry(ids, id);
		int r;

		if (!e || x->told[id / 64] >> id % 64 & 1)
			continue;
		r = glossary_add(image_glossary(x->image), id, e->class->class);
		if (r < 0)
			return r;
		x->told[id / 64] |= 1ull << id % 64;
	}
	x->n_told = ids->n;
	return 0;
}

/* Under the lock. */
static int backed_describe(Backed *x)
{
	Descriptions programs;
	int r = described_copy(&x->owner->described, SIZE_MAX, &programs);

	if (r < 0)
		return r;
	x->n_described = x->owner->described.n_changes;
	descriptions_clear(&x->programs);
	x->programs = programs;
	return 0;
}

int backing_add(Backing *b, Owner *o)
{
	Backed *x = calloc(1, sizeof(*x));
	int r;

	if (!x)
		return -ENOMEM;
	r = image_new(&x->image, &(ImageOptions){ .label = o->label,
						  .number = b->n_owners,
						  .map = o->region.map,
						  .geometry = o->region.geometry,
						  .clock = b->clock,
						  .cpus = o->ground->cpus });
	if (r < 0) {
		free(x);
		return r;
	}
	b->n_owners++;
	/* every id keeps its meaning: it may be on disk */
	x->owner = owner_ref(o);
	owner_pin(o);
	r = backed_tell(x);
	if (r == 0)
		r = backed_describe(x); /* nobody else has it yet */
	if (r < 0) {
		(void)backed_free(x);
		return r;
	}
	(void)pthread_mutex_lock(&b->lock);
	x->next = b->owners;
	b->owners = x;
	(void)pthread_mutex_unlock(&b->lock);
	return 0;
}

int backing_tell(Backing *b, Owner *o)
{
	Backed *x = backing_find(b, o);

	int r = x ? backed_tell(x) : 0;

	/* of many the copy is dear: they wait for backing_describe() */
	if (r == 0 && x && o->described.n <= DESCRIBED_AT_ONCE && x->n_described != o->described.n_changes) {
		(void)pthread_mutex_lock(&b->lock);
		r = backed_describe(x);
		(void)pthread_mutex_unlock(&b->lock);
	}
	return r;
}

void backing_describe(Backing *b)
{
	(void)pthread_mutex_lock(&b->lock);
	for (Backed *x = b->owners; x; x = x->next)
		if (!x->retired && x->n_described != x->owner->described.n_changes)
			(void)backed_describe(x); /* out of memory: the next time */
	(void)pthread_mutex_unlock(&b->lock);
}

void backing_retire(Backing *b, Owner *o)
{
	Backed *x = backing_find(b, o);

	if (!x)
		return;
	(void)pthread_mutex_lock(&b->lock);
	x->retired = true;
	b->hurry = true; /* its memory is held until it is let go */
	(void)pthread_cond_signal(&b->wake);
	(void)pthread_mutex_unlock(&b->lock);
}

void backing_set_interval(Backing *b, u64 interval_ns)
{
	(void)pthread_mutex_lock(&b->lock);
	b->hurry |= interval_ns != b->interval_ns;
	b->interval_ns = interval_ns;
	(void)pthread_cond_signal(&b->wake);
	(void)pthread_mutex_unlock(&b->lock);
}

const char *backing_path(const Backing *b)
{
	return b->path;
}

void backing_info(Backing *b, BackingInfo *ret)
{
	(void)pthread_mutex_lock(&b->lock);
	*ret = b->info;
	(void)pthread_mutex_unlock(&b->lock);
	ret->trouble = b->said;
}

static void backing_quit(Backing *b, bool drop)
{
	(void)pthread_mutex_lock(&b->lock);
	b->quit = true;
	b->drop = drop;
	(void)pthread_cond_signal(&b->wake);
	(void)pthread_mutex_unlock(&b->lock);
}

void backing_drop(Backing *b)
{
	b->session->backing = NULL;
	b->session = NULL;
	backing_quit(b, true);
}

void backings_end(Backings *set, u64 timeout_ns, bool (*saved)(const Session *s))
{
	struct timespec until;
	u64 ns;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	ns = (u64)until.tv_nsec + timeout_ns;
	until.tv_sec += (time_t)(ns / NSEC_PER_SEC);
	until.tv_nsec = (long)(ns % NSEC_PER_SEC);
	for (Backing *b = set->first; b; b = b->next)
		if (b->session)
			backing_quit(b, saved(b->session));
	for (Backing *b = set->first, *next; b; b = next) {
		bool ended;

		next = b->next;
		(void)pthread_mutex_lock(&b->lock);
		while (!b->ended && pthread_cond_timedwait(&b->ended_wake, &b->lock, &until) == 0)
			;
		ended = b->ended;
		(void)pthread_mutex_unlock(&b->lock);
		if (ended) {
			backing_free(b);
			continue;
		}
		/* left to the end of the process, with the owners that it has mapped */
		log_error("session '%s': its backing %s does not answer; it is as the last pass left it", b->name, b->path);
		b->source = sd_event_source_disable_unref(b->source);
		backing_unlink(b);
		set->hang = true;
	}
}
