/* SPDX-License-Identifier: MIT */
#include "daemon/bookmark.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lib/atomic.h"

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 8u
#endif

/* Sparse: what nobody touched takes no memory. */
#define MAX_PAGES (1u << 20)

void bookmark_put(BookmarkPage *p, const Bookmark *b)
{
	u64 n = p->n;

	p->marks[n % BOOKMARKS] = *b;
	/* release, for the daemon that comes after our death and finds memory as it was then: the mark was stored before */
	store_release_u64(&p->n, n + 1);
}

void bookmark_take_back(BookmarkPage *p)
{
	store_release_u64(&p->n, p->n - 1);
}

bool bookmark_find(const BookmarkPage *p, bool (*there)(void *userdata, const Bookmark *b), void *userdata,
		   StreamProgress *ret)
{
	for (u64 i = 0; i < MIN(p->n, (u64)BOOKMARKS); i++) {
		const Bookmark *b = &p->marks[(p->n - 1 - i) % BOOKMARKS];

		if (!there(userdata, b))
			continue;
		*ret = b->progress;
		return true;
	}
	return false;
}

/* FNV-1a, 64 bits. */
static u64 add_name(u64 h, const char *name)
{
	/* with the NUL, so that where one ends counts */
	do
		h = (h ^ (u8)*name) * 0x100000001b3ull;
	while (*name++);
	return h;
}

u64 bookmark_chunk(const char *active, const char *part)
{
	return add_name(add_name(0xcbf29ce484222325ull, active), part);
}

/* ---- the memory ---- */

struct Bookmarks {
	int fd;
	u32 low; /* all below are in use */
	u64 used[MAX_PAGES / 64];
};

int bookmarks_new(Bookmarks **ret, int fd)
{
	const u64 size = (u64)MAX_PAGES * BOOKMARK_PAGE;
	Bookmarks *b = calloc(1, sizeof(*b));
	struct stat st;
	int r = b ? 0 : -ENOMEM;

	if (r == 0 && fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (u64)st.st_size != size))
		r = -EBADMSG;
	if (r == 0 && fd < 0) {
		fd = memfd_create("tracer:marks", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
		if (fd < 0 && errno == EINVAL)
			fd = memfd_create("tracer:marks", MFD_CLOEXEC);
		if (fd < 0 || ftruncate(fd, (off_t)size) < 0)
			r = -errno;
	}
	if (r < 0) {
		(void)close_fd(fd);
		free(b);
		return r;
	}
	b->fd = fd;
	b->used[0] = 1; /* so that 0 is no page */
	*ret = b;
	return 0;
}

Bookmarks *bookmarks_free(Bookmarks *b)
{
	if (!b)
		return NULL;
	b->fd = close_fd(b->fd);
	free(b);
	return NULL;
}

int bookmarks_fd(const Bookmarks *b)
{
	return b->fd;
}

static bool is_used(const Bookmarks *b, u32 i)
{
	return b->used[i / 64] >> i % 64 & 1;
}

static void set_used(Bookmarks *b, u32 first, u32 n, bool used)
{
	for (u32 i = first; i < first + n; i++) {
		u64 bit = 1ull << i % 64;

		b->used[i / 64] = used ? b->used[i / 64] | bit : b->used[i / 64] & ~bit;
	}
}

static void punch(const Bookmarks *b, u32 first, u32 n)
{
	(void)fallocate(b->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first * BOOKMARK_PAGE,
			(off_t)n * BOOKMARK_PAGE);
}

int bookmarks_reserve(Bookmarks *b, u32 n, u32 *ret_first)
{
	u32 run = 0;

	while (b->low < MAX_PAGES && is_used(b, b->low))
		b->low++;
	for (u32 i = b->low; i < MAX_PAGES; i++) {
		if (i % 64 == 0 && b->used[i / 64] == UINT64_MAX) {
			run = 0;
			i += 63;
			continue;
		}
		run = is_used(b, i) ? 0 : run + 1;
		if (run < n)
			continue;
		*ret_first = i + 1 - n;
		set_used(b, *ret_first, n, true);
		punch(b, *ret_first, n);
		return 0;
	}
	return -ENOSPC;
}

int bookmarks_claim(Bookmarks *b, u32 first, u32 n)
{
	if (first == 0 || n == 0 || first >= MAX_PAGES || n > MAX_PAGES - first)
		return -EINVAL;
	for (u32 i = first; i < first + n; i++)
		if (is_used(b, i))
			return -EINVAL;
	set_used(b, first, n, true);
	return 0;
}

void bookmarks_release(Bookmarks *b, u32 first, u32 n)
{
	set_used(b, first, n, false);
	b->low = MIN(b->low, first);
	punch(b, first, n);
}

BookmarkPage *bookmarks_map(const Bookmarks *b, u32 first, u32 n)
{
	void *p = mmap(NULL, (size_t)n * BOOKMARK_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, b->fd,
		       (off_t)first * BOOKMARK_PAGE);

	return p == MAP_FAILED ? NULL : p;
}

void bookmarks_unmap(BookmarkPage *p, u32 n)
{
	if (p)
		(void)munmap(p, (size_t)n * BOOKMARK_PAGE);
}
