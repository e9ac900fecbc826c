/* SPDX-License-Identifier: MIT */
/* Writes the control page. Order of every change: tables, masks, the slot's generation, the generation. Each
 * store is a release that pairs with the producers' loads of the same word (lib/control, lib/slot); who
 * has seen the generation (acquire) sees all that was stored before it. There is one writer. */
#include "daemon/board.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "daemon/clock.h"
#include "lib/atomic.h"

struct Board {
	int lock_fd;
	struct abi_control_page *page;
	u64 used; /* slots of ours, a bit each */
};

/* Returns whether any was another. */
static bool page_bits(Board *b, u32 slot, const u64 *buckets)
{
	u64 bit = 1ull << slot;
	bool changed = false;

	for (u32 i = 0; i < ABI_BUCKETS; i++) {
		u64 *word = &b->page->mask[i], was = load_relaxed_u64(word), is = was & ~bit;

		if (buckets && buckets[i / 64] >> i % 64 & 1)
			is |= bit;
		/* release, pairs with the producers' relaxed hint; what the hint leads to is
		 * rechecked against the generations */
		if (is != was)
			store_release_u64(word, is);
		changed |= is != was;
	}
	return changed;
}

Beacon board_beacon(Board *b, u32 slot)
{
	return (Beacon){ .wake = &b->page->head.wake[slot], .progress = &b->page->head.progress[slot] };
}

/* Behind the store to the slot's generation: who waits for room in its rings finds that they are over. */
static void slot_release(Board *b, u32 slot)
{
	Beacon beacon = board_beacon(b, slot);

	/* a consumer finds out as well, and arms itself anew */
	beacon_call(&beacon);
	beacon_progress(&beacon);
}

/* A number that was never used by a slot of this page, and is not 0. The count survives daemons with the page. */
static u32 generation_next(const Board *b)
{
	u32 g = load_relaxed_u32(&b->page->head.generation) + 1;

	return g ? g : 1;
}

static void generation_publish(Board *b, u32 generation)
{
	/* release, pairs with the acquire load of the generation in the producers: all of the change
	 * above is visible to who sees this number */
	store_release_u32(&b->page->head.generation, generation);
}

static int boot_id_read(u8 ret[16])
{
	_cleanup_close_ int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[64], *p = text;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 36)
		return -EIO;
	text[n] = 0;
	for (int i = 0; i < 16; i++) {
		char byte[3];

		if (*p == '-')
			p++;
		byte[0] = p[0];
		byte[1] = p[1];
		byte[2] = 0;
		ret[i] = (u8)strtoul(byte, NULL, 16);
		p += 2;
	}
	return 0;
}

static bool page_believable(const struct abi_control *h)
{
	return h->magic == ABI_CONTROL_MAGIC && h->major == ABI_MAJOR && h->size == ABI_CONTROL_SIZE;
}

static void page_clock(Board *b, ClockChoice choice, const u8 boot_id[16], Failure *warning)
{
	struct abi_control *h = &b->page->head;
	bool known = h->clock != ABI_CLOCK_NONE && memcmp(h->boot_id, boot_id, 16) == 0;
	u32 kind;

	(void)clock_choose(choice, &kind, warning);
	if (known && h->clock == kind && (kind != ABI_CLOCK_COUNTER || h->clock_mult))
		return;
	/* First daemon of this boot, or one that was told to use another clock. No ring of the old
	 * clock is read again (its slots are dead), and the uuid changes with the clock. */
	if (getrandom(h->clock_uuid, sizeof(h->clock_uuid), 0) != sizeof(h->clock_uuid))
		memcpy(h->clock_uuid, boot_id, sizeof(h->clock_uuid));
	h->clock_uuid[6] = (u8)((h->clock_uuid[6] & 0x0f) | 0x40); /* RFC 4122: version 4 */
	h->clock_uuid[8] = (u8)((h->clock_uuid[8] & 0x3f) | 0x80);
	memcpy(h->boot_id, boot_id, sizeof(h->boot_id));
	store_relaxed_u64(&h->clock_mult, kind == ABI_CLOCK_COUNTER ? clock_calibrate() : 0);
	/* release: who sees the kind sees the multiplier */
	store_release_u32(&h->clock, kind);
}

/* All but the slots in `keep`. */
static void page_clear(Board *b, u64 keep)
{
	struct abi_control_page *p = b->page;

	for (u32 i = 0; i < ABI_BUCKETS; i++)
		store_release_u64(&p->mask[i], load_relaxed_u64(&p->mask[i]) & keep);
	/* release each, pairs with the acquire compare in the producers: a slot that reads 0 is over */
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++)
		if (!(keep >> i & 1))
			store_release_u32(&p->head.slot_generation[i], 0);
	/* all of them: whoever waits does so for a daemon that is gone, and knows no slots of ours */
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++)
		if (!(keep >> i & 1))
			slot_release(b, i);
	generation_publish(b, generation_next(b));
}

static int file_open(int directory_fd, Failure *f)
{
	_cleanup_close_ int fd = openat(directory_fd, "control",
					O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0644);
	struct stat st;
	int r;

	if (fd < 0)
		return failure_set(f, FAILURE_IO, "control: %s", strerror(errno));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return failure_set(f, FAILURE_IO, "control: not a regular file");
	/* programs of every user read it, whatever our umask is */
	if ((st.st_mode & 07777) != 0644 && fchmod(fd, 0644) < 0)
		return failure_set(f, FAILURE_IO, "control: chmod: %s", strerror(errno));
	/* allocated, not only sized: a full file system must fail here, not by SIGBUS in a store */
	do {
		r = posix_fallocate(fd, 0, ABI_CONTROL_SIZE);
	} while (r == EINTR);
	if (r)
		return failure_set(f, r == ENOSPC ? FAILURE_NO_SPACE : FAILURE_IO, "control: %s",
				   strerror(r));
	return steal_fd(fd);
}

/* What the page does not say as well is over. */
static u64 page_keep(Board *b, BoardKept *kept)
{
	const struct abi_control *h = &b->page->head;

	if (memcmp(kept->clock_uuid, h->clock_uuid, sizeof(h->clock_uuid)) != 0)
		kept->slots = 0;
	for (u32 i = 0; i < ABI_MAX_SLOTS; i++)
		if (load_relaxed_u32(&h->slot_generation[i]) != kept->generation[i] || kept->generation[i] == 0)
			kept->slots &= ~(1ull << i);
	return kept->slots;
}

int board_open(Board **ret, int directory_fd, ClockChoice clock, const Cpus *cpus, BoardKept *kept,
	       Failure *ret_clock_warning, Failure *f)
{
	_cleanup_(board_freep) Board *b = calloc(1, sizeof(*b));
	_cleanup_close_ int fd = -1;
	struct abi_control *h;
	u64 keep = 0;
	u8 boot_id[16];
	void *map;

	if (!b)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	*ret_clock_warning = FAILURE_NULL;
	/* a description of its own, so that the lock lives and dies with this board */
	b->lock_fd = openat(directory_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->lock_fd < 0)
		return failure_set(f, FAILURE_IO, "runtime directory: %s", strerror(errno));
	if (flock(b->lock_fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK)
			return failure_set(f, FAILURE_BUSY,
					   "another tracerd uses this runtime directory");
		return failure_set(f, FAILURE_IO, "runtime directory: lock: %s", strerror(errno));
	}
	fd = file_open(directory_fd, f);
	if (fd < 0)
		return fd;
	map = mmap(NULL, ABI_CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return failure_set(f, FAILURE_IO, "control: mmap: %s", strerror(errno));
	b->page = map;
	h = &b->page->head;
	if (!page_believable(h)) {
		/* Never written, or by a daemon of another major: programs that know only that one
		 * refuse the page by its magic or size, and the others find an empty one. */
		u32 generation = load_relaxed_u32(&h->generation);

		memset(b->page, 0, sizeof(*b->page));
		store_relaxed_u32(&h->generation, generation);
		h->major = ABI_MAJOR;
		h->size = ABI_CONTROL_SIZE;
	}
	h->minor = ABI_MINOR;
	if (boot_id_read(boot_id) < 0)
		memset(boot_id, 0, sizeof(boot_id));
	if (!kept || !kept->slots)
		for (u32 i = 0; i < ABI_BUCKETS; i++)
			store_release_u64(&b->page->mask[i], 0);
	page_clock(b, clock, boot_id, ret_clock_warning);
	if (kept)
		keep = page_keep(b, kept);
	/* release, pairs with the acquire of `generation`, and for a ring the sequence loads at any time:
	 * every number that it may load names a ring of addresses in every region */
	for (u32 i = 0; i < ABI_MAX_CPUS; i++)
		store_release_u16(&b->page->cpu_ring[i], cpus->ring_of[i]);
	/* the magic last of the header: a program that maps a half-written page must not believe it */
	store_release_u64(&h->magic, ABI_CONTROL_MAGIC);
	b->used = keep;
	page_clear(b, keep);
	*ret = steal_ptr(b);
	return 0;
}

Board *board_free(Board *b)
{
	if (!b)
		return NULL;
	if (b->page) {
		if (b->used)
			page_clear(b, 0);
		(void)munmap(b->page, ABI_CONTROL_SIZE);
	}
	b->lock_fd = close_fd(b->lock_fd);
	free(b);
	return NULL;
}

Board *board_leave(Board *b)
{
	if (b)
		b->used = 0;
	return board_free(b);
}

struct record_clock board_clock(const Board *b)
{
	return (struct record_clock){ .kind = b->page->head.clock,
				      .mult = b->page->head.clock_mult };
}

const u8 *board_clock_uuid(const Board *b)
{
	return b->page->head.clock_uuid;
}

u32 board_generation(const Board *b)
{
	return load_relaxed_u32(&b->page->head.generation);
}

int board_slot_find(const Board *b)
{
	return ~b->used ? __builtin_ctzll(~b->used) : -ENOSPC;
}

u32 board_session_begin(Board *b, u32 slot, const u64 buckets[SCOPE_WORDS])
{
	u32 generation = generation_next(b);

	b->used |= 1ull << slot;
	page_bits(b, slot, buckets);
	/* release, pairs with the acquire compare in the producers */
	store_release_u32(&b->page->head.slot_generation[slot], generation);
	slot_release(b, slot);
	generation_publish(b, generation);
	return generation;
}

void board_session_change(Board *b, u32 slot, const u64 buckets[SCOPE_WORDS])
{
	(void)page_bits(b, slot, buckets);
	generation_publish(b, generation_next(b));
}

void board_session_keep(Board *b, u32 slot, const u64 buckets[SCOPE_WORDS])
{
	if (page_bits(b, slot, buckets))
		generation_publish(b, generation_next(b));
}

u32 board_session_renew(Board *b, u32 slot)
{
	u32 generation = generation_next(b);

	/* release, as in board_session_begin(): from here no program records into the old rings */
	store_release_u32(&b->page->head.slot_generation[slot], generation);
	slot_release(b, slot);
	generation_publish(b, generation);
	return generation;
}

void board_session_end(Board *b, u32 slot)
{
	b->used &= ~(1ull << slot);
	(void)page_bits(b, slot, NULL);
	store_release_u32(&b->page->head.slot_generation[slot], 0);
	slot_release(b, slot);
	generation_publish(b, generation_next(b));
}

void board_retry(Board *b)
{
	/* relaxed, as in retry_due() of the library: nothing comes with it */
	store_relaxed_u32(&b->page->head.retry, board_retries(b) + 1);
}

u32 board_retries(const Board *b)
{
	return load_relaxed_u32(&b->page->head.retry);
}

void board_cpu_ring(Board *b, u32 cpu, u16 ring)
{
	/* release, pairs with the load inside a sequence: the ring's memory was allocated before */
	store_release_u16(&b->page->cpu_ring[cpu], ring);
}

const struct abi_control_page *board_page(const Board *b)
{
	return b->page;
}
