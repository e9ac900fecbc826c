/* SPDX-License-Identifier: MIT */
#include "lib/catalog.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "lib/attach.h"
#include "lib/class.h"
#include "lib/control.h"

#define CATALOG_FIRST (16 * 1024) /* bytes of classes before the first mapping */
#define CATALOG_CHUNK (256 * 1024)
#define CATALOG_HASH  4096
#define CATALOG_WAIT  (200 * NSEC_PER_MSEC)

struct class
{
	const u8 *bytes;
	u32 size;
	u16 next; /* in the chain of its hash: index + 1 */
};

/* .bss: what is not used costs nothing. None of it is wiped by fork: classes are a child's as well.
 */
static struct class classes[WIRE_MAX_CLASSES];
static u16 chains[CATALOG_HASH]; /* index + 1 */
static u32 n_classes;
static u8 first[CATALOG_FIRST];
static u8 *chunk = first;
static size_t chunk_left = sizeof(first);

/* 0 free, 1 held, 2 held and somebody waits. It lies on the wiped page: a child that was forked
 * while another thread held it finds it free, and the order of the stores below leaves nothing half
 * done that it could meet. */
static bool lock(void)
{
	struct timespec wait = {0, CATALOG_WAIT};
	u32 *word = &process.catalog_lock, taken = 1, was = 0;

	while (!cas_acquire_u32(word, &was, taken)) {
		if (was == 2 || cas_acquire_u32(word, &was, 2) || was == 2) {
			taken = 2; /* whoever else waits must be woken by us */
			if (syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 2, &wait, NULL, 0) < 0 &&
			    errno == ETIMEDOUT)
				return false;
		}
		was = 0;
	}
	return true;
}

static void unlock(void)
{
	u32 *word = &process.catalog_lock, was = 1;

	if (cas_release_u32(word, &was, 0))
		return;
	store_release_u32(word, 0);
	(void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Bytes of the class on the wire, written to p if that is not NULL. */
static size_t encode(const struct tracer_event *e, u8 *p)
{
	size_t provider = strlen(e->provider) + 1, name = strlen(e->name) + 1,
	       at = 4 + provider + name;
	u8 n = 0;

	if (p) {
		memcpy(p + 4, e->provider, provider);
		memcpy(p + 4 + provider, e->name, name);
	}
	for (const struct tracer_field *f = e->fields; f->name && n < CLASS_MAX_FIELDS; f++, n++) {
		size_t length = strlen(f->name) + 1;

		if (p) {
			p[at] = f->type;
			p[at + 1] = f->shape;
			memcpy(p + at + 2, &f->count, 2);
			memcpy(p + at + 4, f->name, length);
		}
		at += 4 + length;
	}
	if (p) {
		u16 bytes = (u16)at;

		memcpy(p, &bytes, 2);
		p[2] = e->level;
		p[3] = n;
	}
	return at;
}

static u32 hash(const u8 *p, size_t n)
{
	u32 h = 2166136261u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 16777619u;
	return (h ^ h >> 16) & (CATALOG_HASH - 1);
}

static int add_locked(const struct tracer_event *e, struct tracer_state **ret)
{
	size_t size = encode(e, NULL);
	u32 h, index;
	u8 *p;

	if (size > CATALOG_FIRST)
		return -E2BIG;
	if (size > chunk_left) {
		p = mmap(NULL, CATALOG_CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
		if (p == MAP_FAILED)
			return -ENOMEM;
		chunk_left = CATALOG_CHUNK;
		chunk = p;
	}
	/* encoded where it would stay, then compared as bytes: equal bytes are an equal class */
	(void)encode(e, chunk);
	h = hash(chunk, size);
	for (u32 i = chains[h]; i; i = classes[i - 1].next)
		if (classes[i - 1].size == size && !memcmp(classes[i - 1].bytes, chunk, size)) {
			*ret = &process.states[i - 1];
			return 0;
		}

	index = n_classes;
	if (index >= WIRE_MAX_CLASSES)
		return -E2BIG;
	classes[index] = (struct class){chunk, (u32)size, chains[h]};
	chunk_left -= size;
	chunk += size;
	/* pairs with catalog_count(): whoever sees the number sees the class */
	store_release_u32(&n_classes, index + 1);
	chains[h] = (u16)(index + 1);
	*ret = &process.states[index];
	return 0;
}

int catalog_add(const struct tracer_event *event, struct tracer_state **ret)
{
	sigset_t all, saved;
	int r = -EBUSY;

	/* a handler that registers must not wait for the thread it interrupted */
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &saved);
	if (lock()) {
		r = add_locked(event, ret);
		unlock();
	}
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	return r;
}

u32 catalog_count(void)
{
	return load_acquire_u32(&n_classes);
}

const u8 *catalog_class(u32 i, u32 *ret_size)
{
	*ret_size = classes[i].size;
	return classes[i].bytes;
}

static bool event_register(struct tracer_event *e)
{
	struct tracer_state *state;

	if (e->state || catalog_add(e, &state) < 0)
		return false;
	e->generation = &control_page->head.generation;
	e->state = state;
	/* Last: a thread that meets a bit through this pointer finds the rest. (Before the
	 * constructor has run no thread should be here; the order costs nothing.) */
	__atomic_store_n(&e->mask, &control_page->mask[abi_bucket(e->provider)], __ATOMIC_RELEASE);
	return load_relaxed_u64(e->mask) != 0;
}

void tracer_register_(struct tracer_event *event, struct tracer_event **start,
		      struct tracer_event **stop)
{
	bool wanted = false;
	int saved = errno;

	control_open();
	for (struct tracer_event **e = start; e < stop; e++)
		wanted |= *e && event_register(*e);
	/* a linker that dropped the list has not dropped the constructor */
	wanted |= event_register(event);
	if (wanted)
		attach_eagerly();
	errno = saved;
}
