/* SPDX-License-Identifier: MIT */
#include "daemon/backing/glossary.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include "daemon/backing/format.h"
#include "daemon/bytes.h"

/* Bytes of one file that are read at most: all ids of an owner with classes of several hundred bytes. */
#define READ_MAX (64ull << 20)
/* Wrong places until the rest is given up: a disk makes a few; searching behind each of millions would take for ever. */
#define BAD_MAX 1024

typedef struct {
	u8 *p; /* owned */
	size_t n, allocated;
} Bytes;

struct Glossary {
	u64 image;
	pthread_mutex_t lock;
	Bytes added; /* guarded by lock */
	/* of the thread that flushes */
	Bytes taken; /* all that the file has, or is to have */
	int fd;
	u64 size; /* of the file, as far as it is durable: so many of those bytes */
};

int glossary_new(Glossary **ret, u64 image)
{
	Glossary *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->image = image;
	l->fd = -1;
	(void)pthread_mutex_init(&l->lock, NULL);
	*ret = l;
	return 0;
}

Glossary *glossary_free(Glossary *l)
{
	if (!l)
		return NULL;
	(void)pthread_mutex_destroy(&l->lock);
	(void)close_fd(l->fd);
	free(l->added.p);
	free(l->taken.p);
	free(l);
	return NULL;
}

/* ---- adding ---- */

static int reserve(Bytes *b, size_t more)
{
	size_t n = MAX(b->allocated * 2, b->n + more);
	u8 *p;

	if (b->n + more <= b->allocated)
		return 0;
	p = realloc(b->p, n);
	if (!p)
		return -ENOMEM;
	b->p = p;
	b->allocated = n;
	return 0;
}

int glossary_add(Glossary *l, u32 id, const struct event_class *c)
{
	u8 bytes[CLASS_MAX_BYTES];
	size_t size = class_encode(c, bytes, sizeof(bytes)), padded = ALIGN_UP(size, (size_t)8);
	struct backing_entry e = {
		.magic = BACKING_MAGIC_ENTRY,
		.type = BACKING_ENTRY_CLASS,
		.size = (u32)size,
		.id = id,
		.image = l->image,
	};
	int r;

	if (size > BACKING_ENTRY_MAX)
		return -EINVAL; /* it came by a message that is shorter */
	(void)pthread_mutex_lock(&l->lock);
	r = reserve(&l->added, sizeof(e) + padded);
	if (r == 0) {
		u8 *p = l->added.p + l->added.n;

		memset(p + sizeof(e), 0, padded);
		memcpy(p + sizeof(e), bytes, size);
		e.checksum = backing_checksum(backing_checksum(0, &e, sizeof(e)), p + sizeof(e), padded);
		memcpy(p, &e, sizeof(e));
		l->added.n += sizeof(e) + padded;
	}
	(void)pthread_mutex_unlock(&l->lock);
	return r;
}

static int take(Glossary *l)
{
	int r = 0;

	(void)pthread_mutex_lock(&l->lock);
	if (l->added.n) {
		r = reserve(&l->taken, l->added.n);
		if (r == 0) {
			memcpy(l->taken.p + l->taken.n, l->added.p, l->added.n);
			l->taken.n += l->added.n;
			l->added.n = 0;
		}
	}
	(void)pthread_mutex_unlock(&l->lock);
	return r;
}

int glossary_flush(Glossary *l, int dir_fd, const char *name, u64 *ret_bytes)
{
	int r = take(l);

	*ret_bytes = 0;
	if (r < 0 || l->taken.n == l->size)
		return r;
	if (l->fd < 0) {
		l->fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
		if (l->fd < 0)
			return -errno;
		/* its name as well */
		if (fsync(dir_fd) < 0) {
			r = -errno;
			l->fd = close_fd(l->fd);
			return r;
		}
	}
	r = write_at(l->fd, l->taken.p + l->size, l->taken.n - l->size, l->size);
	if (r == 0 && fdatasync(l->fd) < 0)
		r = -errno;
	if (r < 0)
		return r; /* written again, to the same place: what a failed sync has left there is not known */
	*ret_bytes = l->taken.n - l->size;
	l->size = l->taken.n;
	return 0;
}

void glossary_reset(Glossary *l)
{
	l->fd = close_fd(l->fd);
	l->size = 0;
}

u64 glossary_size(const Glossary *l)
{
	return l->size;
}

/* ---- reading ---- */

void glossary_classes_clear(GlossaryClasses *c)
{
	for (size_t i = 0; i < c->n; i++)
		free((struct event_class *)c->v[i].class);
	free(c->v);
	*c = (GlossaryClasses){};
}

/* The entry at p with n bytes left: its bytes, or 0. */
static size_t entry_check(struct backing_entry *ret, const u8 *p, size_t n, u64 image)
{
	struct backing_entry e;
	size_t padded;
	u64 sum;

	if (n < sizeof(e))
		return 0;
	memcpy(&e, p, sizeof(e));
	padded = ALIGN_UP((size_t)e.size, (size_t)8);
	if (e.magic != BACKING_MAGIC_ENTRY || e.image != image || e.size > BACKING_ENTRY_MAX || padded > n - sizeof(e))
		return 0;
	sum = e.checksum;
	e.checksum = 0;
	if (backing_checksum(backing_checksum(0, &e, sizeof(e)), p + sizeof(e), padded) != sum)
		return 0;
	*ret = e;
	return sizeof(e) + padded;
}

static int classes_add(GlossaryClasses *c, const struct backing_entry *e, const u8 *payload, size_t *allocated)
{
	struct event_class *class;
	int r;

	if (e->id == 0 || e->id > ABI_ID_MAX)
		return -EBADMSG;
	r = class_decode(&class, payload, e->size);
	if (r < 0)
		return r;
	if (c->n == *allocated) {
		size_t n = *allocated ? *allocated * 2 : 64;
		TraceClass *v = reallocarray(c->v, n, sizeof(*v));

		if (!v) {
			free(class);
			return -ENOMEM;
		}
		c->v = v;
		*allocated = n;
	}
	c->v[c->n++] = (TraceClass){ .id = e->id, .class = class };
	return 0;
}

static int parse(GlossaryClasses *c, const u8 *p, size_t n, u64 image)
{
	size_t allocated = 0, at = 0;
	bool lost = false; /* looking for the next entry */

	while (at < n) {
		struct backing_entry e;
		size_t step = 0;
		u32 magic = 0;
		int r = 0;

		memcpy(&magic, p + at, MIN(sizeof(magic), n - at));
		if (magic == BACKING_MAGIC_ENTRY)
			step = entry_check(&e, p + at, n - at, image);
		if (step && e.type == BACKING_ENTRY_CLASS)
			r = classes_add(c, &e, p + at + sizeof(e), &allocated);
		if (r == -ENOMEM)
			return r;
		if (!step || r < 0) {
			/* the first place, and every one that looks like an entry and is none */
			if (!lost || magic == BACKING_MAGIC_ENTRY)
				c->n_bad++;
			if (c->n_bad == BAD_MAX) {
				c->given_up = true;
				return 0;
			}
		}
		lost = !step;
		at += step ? step : 8; /* every entry begins at a multiple of 8 */
	}
	return 0;
}

int glossary_read(GlossaryClasses *ret, int fd, u64 image)
{
	_cleanup_(glossary_classes_clear) GlossaryClasses c = {};
	_cleanup_free_ u8 *p = NULL;
	struct stat st;
	size_t size;
	ssize_t n;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	size = (size_t)MIN((u64)MAX(st.st_size, (off_t)0), READ_MAX);
	p = malloc(size + 1);
	if (!p)
		return -ENOMEM;
	n = read_at(fd, p, size, 0);
	if (n < 0)
		return (int)n;
	c.size = (u64)st.st_size;
	r = parse(&c, p, (size_t)n, image);
	if (r < 0)
		return r;
	*ret = c;
	c = (GlossaryClasses){};
	return 0;
}
