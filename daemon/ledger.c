/* SPDX-License-Identifier: MIT */
#include "daemon/ledger.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lib/atomic.h"

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 8u
#endif

#define MAGIC	0x31676c7274726371ull
#define VERSION 1
#define HEAD	4096u
/* Sparse: only what is written takes memory. */
#define HALF	(64ull << 20)
#define SUM	16 /* hexadecimal digits, and a space behind them */
#define LEAST	(64u << 10)

struct head {
	u64 magic;
	u32 version;
	u32 faults;  /* daemons in a row that died by their own fault */
	u32 faulted; /* the last one did, and was not counted yet */
	u32 reserved;
	u64 tip;     /* size of the half that counts, times two, plus its number */
	u32 missed;  /* event ids that were given and that no line says */
	u32 ended;   /* its daemon was ending its sessions in order */
};

struct Ledger {
	int fd;
	struct head *head;
	u32 half;
	u64 size, base; /* of that half: now, and when it was written anew */
	bool rewriting;
	u32 old_half;
	u64 old_size, old_base;
	char *buffer; /* of a line on its way out */
	size_t allocated;
};

static u64 half_at(u32 half)
{
	return HEAD + half * HALF;
}

/* FNV-1a, 64 bits: against damage, not against malice. */
static u64 sum_of(const char *p, size_t n)
{
	u64 h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < n; i++)
		h = (h ^ (u8)p[i]) * 0x100000001b3ull;
	return h;
}

static int head_map(Ledger *l)
{
	void *p = mmap(NULL, HEAD, PROT_READ | PROT_WRITE, MAP_SHARED, l->fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	l->head = p;
	return 0;
}

int ledger_new(Ledger **ret)
{
	_cleanup_(ledger_freep) Ledger *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return -ENOMEM;
	l->fd = memfd_create("tracer:state", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	if (l->fd < 0 && errno == EINVAL)
		l->fd = memfd_create("tracer:state", MFD_CLOEXEC);
	if (l->fd < 0 || ftruncate(l->fd, (off_t)(HEAD + 2 * HALF)) < 0)
		return -errno;
	/* a store to a page that cannot be had would be a SIGBUS */
	if (fallocate(l->fd, 0, 0, HEAD) < 0)
		return -errno;
	r = head_map(l);
	if (r < 0)
		return r;
	l->head->version = VERSION;
	l->head->magic = MAGIC;
	*ret = steal_ptr(l);
	return 0;
}

int ledger_open(Ledger **ret, int fd)
{
	_cleanup_(ledger_freep) Ledger *l = calloc(1, sizeof(*l));
	struct stat st;
	u64 tip;
	int r;

	if (!l) {
		(void)close_fd(fd);
		return -ENOMEM;
	}
	l->fd = fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || (u64)st.st_size != HEAD + 2 * HALF)
		return -EBADMSG;
	if (fallocate(fd, 0, 0, HEAD) < 0)
		return -errno;
	r = head_map(l);
	if (r < 0)
		return r;
	if (l->head->magic != MAGIC)
		return -EBADMSG;
	if (l->head->version != VERSION)
		return -EPROTONOSUPPORT;
	/* relaxed: whoever wrote it is gone */
	tip = load_relaxed_u64(&l->head->tip);
	l->half = tip & 1;
	l->size = l->base = tip >> 1;
	if (l->size > HALF)
		return -EBADMSG;
	*ret = steal_ptr(l);
	return 0;
}

Ledger *ledger_free(Ledger *l)
{
	if (!l)
		return NULL;
	if (l->head)
		(void)munmap(l->head, HEAD);
	l->fd = close_fd(l->fd);
	free(l->buffer);
	free(l);
	return NULL;
}

int ledger_fd(const Ledger *l)
{
	return l->fd;
}

/* ---- reading ---- */

static int read_whole(int fd, char *p, size_t n, u64 offset)
{
	while (n > 0) {
		ssize_t k = pread(fd, p, n, (off_t)offset);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return k < 0 ? -errno : -EIO;
		p += k;
		n -= (size_t)k;
		offset += (u64)k;
	}
	return 0;
}

static bool line_whole(const char *line, size_t n)
{
	char *end;

	return n > SUM && line[SUM] == ' ' && !memchr(line, 0, n) &&
	       strtoull(line, &end, 16) == sum_of(line + SUM + 1, n - SUM - 1) && end == line + SUM;
}

int ledger_read(Ledger *l, int (*fn)(void *userdata, const char *line), void *userdata, LedgerDamage *ret_damage)
{
	_cleanup_free_ char *all = malloc(l->size + 1);
	int r;

	*ret_damage = (LedgerDamage){ 0 };
	if (!all)
		return -ENOMEM;
	r = read_whole(l->fd, all, l->size, half_at(l->half));
	if (r < 0)
		return r;
	all[l->size] = 0;
	for (char *p = all, *end; p < all + l->size; p = end + 1) {
		end = memchr(p, '\n', (size_t)(all + l->size - p));
		if (!end)
			end = all + l->size;
		*end = 0;
		if (!line_whole(p, (size_t)(end - p))) {
			ret_damage->n_lines++;
			ret_damage->n_bytes += (u64)(end - p);
			continue;
		}
		r = fn(userdata, p + SUM + 1);
		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- writing ---- */

static int write_whole(int fd, const char *p, size_t n, u64 offset)
{
	while (n > 0) {
		ssize_t k = pwrite(fd, p, n, (off_t)offset);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0)
			return k < 0 ? -errno : -EIO;
		p += k;
		n -= (size_t)k;
		offset += (u64)k;
	}
	return 0;
}

static void tip_publish(Ledger *l)
{
	/* release, for the reader who comes after our death and finds memory as it was then: every line below was stored
	 * before. One aligned store, so that it is the one or the other. */
	store_release_u64(&l->head->tip, l->size << 1 | l->half);
}

int ledger_append(Ledger *l, const char *line)
{
	size_t n = strlen(line), whole = SUM + 1 + n + 1;
	int r;

	if (memchr(line, '\n', n))
		return -EINVAL;
	if (l->size + whole > HALF)
		return -ENOSPC;
	if (l->allocated < whole + 1) {
		char *p = realloc(l->buffer, whole + 256);

		if (!p)
			return -ENOMEM;
		l->buffer = p;
		l->allocated = whole + 256;
	}
	(void)snprintf(l->buffer, l->allocated, "%016llx %s\n", (unsigned long long)sum_of(line, n), line);
	r = write_whole(l->fd, l->buffer, whole, half_at(l->half) + l->size);
	if (r < 0)
		return r;
	l->size += whole;
	if (!l->rewriting)
		tip_publish(l);
	return 0;
}

bool ledger_due(const Ledger *l)
{
	/* or before it is full, if that was written since: what is written anew may be less */
	return l->size > 2 * l->base + LEAST || (l->size > HALF / 4 * 3 && l->size > l->base + HALF / 16);
}

static void half_punch(Ledger *l, u32 half)
{
	(void)fallocate(l->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)half_at(half), (off_t)HALF);
}

void ledger_rewrite_begin(Ledger *l)
{
	l->old_half = l->half;
	l->old_size = l->size;
	l->old_base = l->base;
	l->rewriting = true;
	l->half ^= 1;
	l->size = 0;
}

int ledger_rewrite_end(Ledger *l, bool good)
{
	l->rewriting = false;
	if (good) {
		l->base = l->size;
		tip_publish(l);
		half_punch(l, l->old_half);
		return 0;
	}
	half_punch(l, l->half);
	l->half = l->old_half;
	l->size = l->old_size;
	/* not tried again for each line from now on */
	l->base = MAX(l->old_base, l->old_size / 2);
	return -EIO;
}

/* ---- deaths ---- */

u32 ledger_faults(Ledger *l)
{
	if (load_relaxed_u32(&l->head->faulted)) {
		store_relaxed_u32(&l->head->faulted, 0);
		l->head->faults++;
	}
	return l->head->faults;
}

void ledger_healthy(Ledger *l)
{
	l->head->faults = 0;
}

void ledger_note_fault(Ledger *l)
{
	store_relaxed_u32(&l->head->faulted, 1);
}

/* ---- what a daemon could not say in lines ---- */

void ledger_note_missed(Ledger *l, u32 n)
{
	l->head->missed = l->head->missed > UINT32_MAX - n ? UINT32_MAX : l->head->missed + n;
}

void ledger_note_end(Ledger *l)
{
	store_relaxed_u32(&l->head->ended, 1);
}

u32 ledger_missed(const Ledger *l)
{
	return l->head->missed;
}

bool ledger_ended(const Ledger *l)
{
	return load_relaxed_u32(&l->head->ended);
}

void ledger_complete(Ledger *l, bool running)
{
	l->head->missed = 0;
	if (running)
		store_relaxed_u32(&l->head->ended, 0);
}
