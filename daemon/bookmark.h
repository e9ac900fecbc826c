/* SPDX-License-Identifier: MIT */
/* How far each ring of a session that writes has come, in memory that outlives the daemon: so that the next one writes every record
 * that is in no file, and none that is in one.
 *
 * Before a packet can be in a file, the page of its stream says where it will end there and how far the stream will be then. Whether
 * it came to that is for the file to say: the newest mark whose packet is there is where the stream goes on. So nobody has to be told
 * when a disk is done, and a death between the file and the mark is none. The pages are in a memfd of the daemon's alone
 * ("marks" in systemd's store), a page for each stream. */
#pragma once

#include "daemon/stream.h"

#define BOOKMARK_PAGE 4096u
#define BOOKMARKS     24 /* more than a stream can have packets on their way */

typedef struct {
	u64 chunk;	/* which trace: bookmark_chunk() of its names; 0: none, it holds in any case */
	u64 start, end; /* the packet, in the stream's file */
	StreamProgress progress; /* behind it */
} Bookmark;

typedef struct {
	u64 n; /* ever put, less those that were taken back; the newest is (n - 1) % BOOKMARKS */
	u64 reserved[7];
	Bookmark marks[BOOKMARKS];
} BookmarkPage;
_Static_assert(sizeof(BookmarkPage) <= BOOKMARK_PAGE, "a page each");

/* Before the packet is given to the file. */
void bookmark_put(BookmarkPage *p, const Bookmark *b);
/* It was not taken after all. */
void bookmark_take_back(BookmarkPage *p);
/* The newest that holds, judged by `there` from the newest on: whether its packet is in its file, or its file is finished. False: none
 * (nothing was ever written of the stream). */
bool bookmark_find(const BookmarkPage *p, bool (*there)(void *userdata, const Bookmark *b), void *userdata,
		   StreamProgress *ret);
/* Of the names of a trace while it is written, and of the owner's part of it. */
u64 bookmark_chunk(const char *active, const char *part);

/* ---- the memory ---- */

typedef struct Bookmarks Bookmarks;
/* fd: what the daemon before left (taken), or -1. Pages of that are in use once they are claimed. 0 or -errno. */
int bookmarks_new(Bookmarks **ret, int fd);
Bookmarks *bookmarks_free(Bookmarks *b);
int bookmarks_fd(const Bookmarks *b);
/* n pages, zeroed: the number of the first, never 0. -ENOSPC, -ENOMEM. */
int bookmarks_reserve(Bookmarks *b, u32 n, u32 *ret_first);
/* Those that the daemon before had reserved: -EINVAL if they cannot be, or are somebody else's. */
int bookmarks_claim(Bookmarks *b, u32 first, u32 n);
void bookmarks_release(Bookmarks *b, u32 first, u32 n);
/* Maps them; to be unmapped by who asked: bookmarks_unmap(). NULL: no memory. */
BookmarkPage *bookmarks_map(const Bookmarks *b, u32 first, u32 n);
void bookmarks_unmap(BookmarkPage *p, u32 n);
static inline BookmarkPage *bookmarks_at(BookmarkPage *p, u32 i)
{
	return p ? (BookmarkPage *)((u8 *)p + (size_t)i * BOOKMARK_PAGE) : NULL;
}
