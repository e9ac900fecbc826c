/* SPDX-License-Identifier: MIT */
/* Which pass was the last that is whole? A table is written with its pass, and the next pass begins only when the disk has
 * taken both: so where two tables are found, all that the older one lists must be there, and whatever of it is not is damage.
 * What the newer one lists is there as well, or that pass was cut off, and what of it arrived is used on top. Where there is one
 * table only, of a pass that was not the first, the other was being written over: then this one is that older one. */
#include "daemon/backing/finds.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "daemon/bytes.h"

void finds_clear(Finds *d)
{
	for (u32 i = 0; d->found && i < d->n_rings; i++)
		free(d->found[i]);
	free(d->found);
	free(d->n_found);
	free(d->tables[0].rings);
	free(d->tables[1].rings);
	free(d->copy);
	(void)close_fd(d->fd);
	*d = (Finds){ .fd = -1 };
}

/* Its own word for the checksum is 0 while it is computed. */
static bool sum_matches(void *p, u64 size, u64 *word)
{
	u64 sum = *word;

	*word = 0;
	return backing_checksum(0, p, size) == sum;
}

/* ---- heads ---- */

static int head_read(Finds *d, const char *name, Notes *notes)
{
	struct backing_image h;
	struct stat st;

	if (d->fd < 0 || fstat(d->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		notes_add(notes, true, "%s: cannot be read: %s", name, d->fd < 0 ? strerror(errno) : "no file");
		return -EBADMSG;
	}
	d->size = (u64)st.st_size;
	if (read_at(d->fd, &h, sizeof(h), 0) != sizeof(h) || h.magic != BACKING_MAGIC_IMAGE ||
	    !sum_matches(&h, sizeof(h), &h.checksum)) {
		notes_add(notes, true, "%s: its first block is torn or none of ours; nothing of these rings can be read", name);
		return -EBADMSG;
	}
	if (h.version != BACKING_VERSION) {
		notes_add(notes, true, "%s: is of version %u, which this program does not know", name, h.version);
		return -EBADMSG;
	}
	d->geometry = (struct geometry){ .ring_shift = h.ring_shift,
					 .sub_shift = h.sub_shift,
					 .side_shift = h.side_shift,
					 .side_sub_shift = h.side_sub_shift,
					 .pinned_shift = h.pinned_shift,
					 .pinned_sub_shift = h.pinned_sub_shift,
					 .n_ring = h.n_ring,
					 .n_side = h.n_side,
					 .n_pinned = h.n_pinned,
					 .policy = h.policy,
					 .contexts = h.contexts };
	h.label[sizeof(h.label) - 1] = '\0';
	if (geometry_check(&d->geometry) < 0 || !h.label[0]) {
		notes_add(notes, true, "%s: its first block says what cannot be; nothing of these rings can be read", name);
		return -EBADMSG;
	}
	(void)snprintf(d->label, sizeof(d->label), "%s", h.label);
	d->id = h.id;
	return 0;
}

static bool table_ring_valid(const struct backing_table_ring *t, u64 size, u64 sub_size)
{
	return t->first <= t->end && t->end <= BACKING_POSITION_LIMIT && t->first % sub_size == 0 && t->end % 4 == 0 &&
	       t->end - t->first <= size;
}

static int table_read(Finds *d, u32 which, FoundTable *ret)
{
	u64 size = sizeof(struct backing_table) + (u64)d->n_rings * sizeof(struct backing_table_ring);
	_cleanup_free_ u8 *p = malloc(size);
	struct backing_table *t = (void *)p;

	if (!p)
		return -ENOMEM;
	if (read_at(d->fd, p, size, backing_table_at(&d->geometry, which)) != (ssize_t)size || t->magic != BACKING_MAGIC_TABLE ||
	    t->image != d->id || t->n_rings != d->n_rings || t->pass == 0 || (t->pass & 1) != which ||
	    !sum_matches(p, size, &t->checksum))
		return 0;
	ret->rings = calloc(d->n_rings, sizeof(*ret->rings));
	if (!ret->rings)
		return -ENOMEM;
	memcpy(ret->rings, t + 1, d->n_rings * sizeof(*ret->rings));
	for (u32 i = 0; i < d->n_rings; i++)
		if (!table_ring_valid(&ret->rings[i], geometry_ring_size(&d->geometry, i),
				      geometry_sub_size(&d->geometry, i)))
			return 0;
	ret->head = *t;
	ret->valid = true;
	return 0;
}

static int tables_read(Finds *d)
{
	for (u32 which = 0; which < 2; which++) {
		int k = table_read(d, which, &d->tables[which]);

		if (k < 0)
			return k;
	}
	if (!d->tables[0].valid || (d->tables[1].valid && d->tables[1].head.pass > d->tables[0].head.pass)) {
		FoundTable t = d->tables[0];

		d->tables[0] = d->tables[1];
		d->tables[1] = t;
	}
	/* tables of passes that do not follow one another are of no one image */
	if (d->tables[1].valid && d->tables[1].head.pass + 1 != d->tables[0].head.pass)
		d->tables[1].valid = false;
	return 0;
}

/* ---- slots ---- */

/* The slot at `at`, into its copy. 1; 0: nothing was ever written there, or not by us; -EBADMSG: torn. */
static int slot_read(Finds *d, u32 ring, u64 at, Found *ret)
{
	u64 sub_size = geometry_sub_size(&d->geometry, ring);
	u8 *room = d->copy + offsetof(struct abi_sub, room);
	struct backing_slot h;
	struct abi_sub sub;
	u64 sum;

	if (read_at(d->fd, d->copy, ABI_SUB_HEADER, at) != ABI_SUB_HEADER)
		return 0;
	memcpy(&h, room, sizeof(h));
	if (h.magic != BACKING_MAGIC_SLOT || h.image != d->id)
		return 0;
	if (h.ring != ring || h.size <= ABI_SUB_HEADER || h.size > sub_size || h.size % 4 ||
	    h.position > BACKING_POSITION_LIMIT || h.position % sub_size ||
	    read_at(d->fd, d->copy + ABI_SUB_HEADER, h.size - ABI_SUB_HEADER, at + ABI_SUB_HEADER) != h.size - ABI_SUB_HEADER)
		return -EBADMSG;
	sum = h.checksum;
	memset(room + offsetof(struct backing_slot, checksum), 0, sizeof(u64));
	if (backing_checksum(0, d->copy, h.size) != sum)
		return -EBADMSG;
	memcpy(&sub, d->copy, sizeof(sub));
	*ret = (Found){
		.position = h.position,
		.end = h.complete ? h.position + sub_size : h.position + h.size,
		.before = sub.position == h.position ? sub.count : UINT64_MAX,
		.count = h.count,
		.pass = h.pass,
		.time = h.time,
		.lost = h.lost,
		.at = at,
		.size = h.size,
		.complete = h.complete != 0,
	};
	return 1;
}

/* By position; of one position the best first: the one that goes furthest, then the newest. */
static int compare_found(const void *a, const void *b)
{
	const Found *x = a, *y = b;

	if (x->position != y->position)
		return x->position < y->position ? -1 : 1;
	if (x->end != y->end)
		return x->end > y->end ? -1 : 1;
	return x->pass > y->pass ? -1 : x->pass < y->pass ? 1 : 0;
}

static int ring_scan(Finds *d, u32 ring)
{
	u64 sub_size = geometry_sub_size(&d->geometry, ring), at = backing_slots_at(&d->geometry, ring);
	u64 begin = at, end = MIN(d->size, at + backing_n_slots(&d->geometry, ring) * sub_size);
	size_t allocated = 0, n = 0, k = 0;
	Found *v = NULL;

	while (at < end) {
		/* holes are skipped, so that an image with room for four thousand CPUs is read as fast as one for two */
		off_t data = lseek(d->fd, (off_t)at, SEEK_DATA);
		Found f;
		int found;

		if (data < 0 && errno == ENXIO)
			break;
		if (data > (off_t)at) {
			at = begin + ((u64)data - begin) / sub_size * sub_size;
			if (at >= end)
				break;
		}
		found = slot_read(d, ring, at, &f);
		at += sub_size;
		d->n_torn += found < 0;
		if (found <= 0)
			continue;
		if (n == allocated) {
			size_t more = allocated ? allocated * 2 : 32;
			Found *w = reallocarray(v, more, sizeof(*w));

			if (!w) {
				free(v);
				return -ENOMEM;
			}
			v = w;
			allocated = more;
		}
		v[n++] = f;
	}
	if (n)
		qsort(v, n, sizeof(*v), compare_found);
	for (size_t i = 0; i < n; i++)
		if (k == 0 || v[k - 1].position != v[i].position)
			v[k++] = v[i];
	d->found[ring] = v;
	d->n_found[ring] = k;
	return 0;
}

const Found *finds_at(const Finds *d, u32 ring, u64 position)
{
	size_t low = 0, high = d->n_found[ring];

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (d->found[ring][middle].position < position)
			low = middle + 1;
		else
			high = middle;
	}
	return low < d->n_found[ring] && d->found[ring][low].position == position ? &d->found[ring][low] : NULL;
}

int finds_copy(Finds *d, u32 ring, const Found *f)
{
	Found again;

	if (slot_read(d, ring, f->at, &again) <= 0 || again.position != f->position || again.size != f->size ||
	    again.end != f->end)
		return -EBADMSG;
	return 0;
}

/* ---- which pass ---- */

bool finds_there(const Finds *d, u32 ring, const struct backing_table_ring *t, u64 position)
{
	const Found *f = finds_at(d, ring, position);

	return f && f->end >= MIN(position + geometry_sub_size(&d->geometry, ring), t->end);
}

static bool table_whole(const Finds *d, const FoundTable *t)
{
	for (u32 i = 0; i < d->n_rings; i++)
		for (u64 p = t->rings[i].first; p < t->rings[i].end; p += geometry_sub_size(&d->geometry, i))
			if (!finds_there(d, i, &t->rings[i], p))
				return false;
	return true;
}

static void reference_choose(Finds *d)
{
	const FoundTable *newer = &d->tables[0], *older = &d->tables[1];

	if (!newer->valid)
		return;
	d->cut_off = !table_whole(d, newer) && (older->valid || newer->head.pass == 1);
	if (!d->cut_off)
		d->reference = newer;
	else if (older->valid)
		d->reference = older;
}

int finds_read(Finds *d, int dir_fd, const char *name, Notes *notes)
{
	u64 largest;
	int k;

	*d = (Finds){ .fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) };
	k = head_read(d, name, notes);
	if (k < 0)
		return k;
	d->n_rings = backing_n_rings(&d->geometry);
	d->found = calloc(d->n_rings, sizeof(*d->found));
	d->n_found = calloc(d->n_rings, sizeof(*d->n_found));
	largest = MAX(geometry_sub_size(&d->geometry, 0), geometry_sub_size(&d->geometry, d->n_rings - 1));
	d->copy = malloc(largest);
	if (!d->found || !d->n_found || !d->copy)
		return -ENOMEM;
	k = tables_read(d);
	for (u32 i = 0; i < d->n_rings && k == 0; i++)
		k = ring_scan(d, i);
	if (k == 0)
		reference_choose(d);
	return k;
}
