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

#define CATALOG_LARGEST (16 * 1024) /* bytes of a class: far below a message */
#define CATALOG_CHUNK	(64 * 1024)
#define CATALOG_HASH	512
#define CATALOG_FEW	64
#define CATALOG_WAIT	(200 * NSEC_PER_MSEC)

struct class
{
	const u8 *bytes;
	u32 size;
	u16 next; /* in the chain of its hash: index + 1 */
};

/* None of it is wiped by fork: classes are a child's as well. What a program with few of them needs is one page:
 * that much it pays at its start although nobody may ever want them. */
static struct {
	u32 n;
	u32 chunk_left;
	u8 *chunk; /* NULL: `first` */
	struct class few[CATALOG_FEW];
	u16 chains[CATALOG_HASH]; /* index + 1 */
	u8 first[ABI_PAGE - 16 - sizeof(struct class[CATALOG_FEW]) - sizeof(u16[CATALOG_HASH])];
} catalog __attribute__((aligned(ABI_PAGE)));
_Static_assert(sizeof(catalog) == ABI_PAGE, "catalog");
static struct class more[WIRE_MAX_CLASSES - CATALOG_FEW];

static struct class *class_at(u32 i)
{
	return i < CATALOG_FEW ? &catalog.few[i] : &more[i - CATALOG_FEW];
}

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

	if (size > CATALOG_LARGEST)
		return -E2BIG;
	if (!catalog.chunk) {
		catalog.chunk = catalog.first;
		catalog.chunk_left = sizeof(catalog.first);
	}
	if (size > catalog.chunk_left) {
		p = mmap(NULL, CATALOG_CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			 -1, 0);
		if (p == MAP_FAILED)
			return -ENOMEM;
		/* in this order (release): a child that was forked in between finds a chunk that is smaller
		 * than it could be, never one that is larger than its memory */
		store_release_u32(&catalog.chunk_left, 0);
		__atomic_store_n(&catalog.chunk, p, __ATOMIC_RELEASE);
		store_release_u32(&catalog.chunk_left, CATALOG_CHUNK);
	}
	/* encoded where it would stay, then compared as bytes: equal bytes are an equal class */
	(void)encode(e, catalog.chunk);
	h = hash(catalog.chunk, size);
	for (u32 i = catalog.chains[h]; i; i = class_at(i - 1)->next)
		if (class_at(i - 1)->size == size &&
		    !memcmp(class_at(i - 1)->bytes, catalog.chunk, size)) {
			*ret = &process.states[i - 1];
			return 0;
		}

	index = catalog.n;
	if (index >= WIRE_MAX_CLASSES)
		return -E2BIG;
	*class_at(index) = (struct class){catalog.chunk, (u32)size, catalog.chains[h]};
	store_release_u32(&catalog.chunk_left, catalog.chunk_left - (u32)size);
	__atomic_store_n(&catalog.chunk, catalog.chunk + size, __ATOMIC_RELEASE);
	/* pairs with catalog_count(): whoever sees the number sees the class */
	store_release_u32(&catalog.n, index + 1);
	catalog.chains[h] = (u16)(index + 1);
	*ret = &process.states[index];
	return 0;
}

/* A handler that registers must not wait for the thread it interrupted. */
static bool begin(sigset_t *saved)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, saved);
	if (lock())
		return true;
	pthread_sigmask(SIG_SETMASK, saved, NULL);
	return false;
}

static void end(const sigset_t *saved)
{
	unlock();
	pthread_sigmask(SIG_SETMASK, saved, NULL);
}

int catalog_add(const struct tracer_event *event, struct tracer_state **ret)
{
	sigset_t saved;
	int r;

	if (!begin(&saved))
		return -EBUSY;
	r = add_locked(event, ret);
	end(&saved);
	return r;
}

u32 catalog_count(void)
{
	return load_acquire_u32(&catalog.n);
}

const u8 *catalog_class(u32 i, u32 *ret_size)
{
	*ret_size = class_at(i)->size;
	return class_at(i)->bytes;
}

static bool event_register(struct tracer_event *e)
{
	struct tracer_state *state;

	if (e->state || add_locked(e, &state) < 0)
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
	sigset_t signals;

	control_open();
	/* once for all of them: a large program has thousands */
	if (begin(&signals)) {
		for (struct tracer_event **e = start; e < stop; e++)
			wanted |= *e && event_register(*e);
		/* a linker that dropped the list has not dropped the constructor */
		wanted |= event_register(event);
		end(&signals);
	}
	if (wanted)
		attach_eagerly();
	errno = saved;
}
