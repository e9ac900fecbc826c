/* SPDX-License-Identifier: MIT */
/* The reader of the stress: what a snapshot keeps is right, whole and as much as it must be. */
#include "tests/stress/ring.h"

#include <linux/membarrier.h>
#include <stdio.h>
#include <sys/syscall.h>

#define PERCENT 80 /* how far a snapshot must reach back; 14/16 is what the ring promises */

struct checked checked = {.reach = 100};

bool check_record(const struct record *r, u64 floor, u32 ring, struct pay *ret)
{
	const u8 *fields = r->body + 8;
	u32 bytes = r->body_size - 8;

	checked.records++;
	checked.extended += r->extended;
	if (r->body_size < 8 + PAY_HEAD || r->id < ID_NUMBER || r->id > ID_TEXT) {
		bad("ring %u: id %u, length %u", ring, r->id, r->length);
		return false;
	}
	if (bytes == PAY_LONG || bytes == PAY_MIDDLE) {
		for (u32 i = sizeof(*ret); i < bytes; i++)
			if (fields[i] != pay_tail(i)) {
				bad("ring %u: torn in a long record at %u", ring, i);
				return false;
			}
		bytes = sizeof(*ret);
	}
	if (bytes > sizeof(*ret)) {
		bad("ring %u: length %u", ring, r->length);
		return false;
	}
	memcpy(ret, fields, bytes);
	if (ret->who >= MAX_WHO) {
		bad("ring %u: who %u", ring, ret->who);
		return false;
	}
	if (r->id == ID_TEXT) {
		char text[sizeof(ret->fill)];

		if (bytes == PAY_HEAD) {
			bad("ring %u: text of no bytes", ring);
			return false;
		}
		pay_text(ret, text, bytes - PAY_HEAD, true);
		if (memcmp(text, ret->fill, bytes - PAY_HEAD)) {
			bad("ring %u: torn text: who %u number %lu", ring, ret->who, ret->number);
			return false;
		}
	} else {
		for (u32 i = 0; i < bytes - PAY_HEAD; i++)
			if (ret->fill[i] != pay_byte(ret, i)) {
				bad("ring %u: torn: who %u number %lu byte %u", ring, ret->who,
				    ret->number, i);
				return false;
			}
	}
	if (!r->extended) {
		u32 low; /* all 32 bits are there, though only ABI_STAMP_BITS were used */

		memcpy(&low, r->body - 4, sizeof(low));
		if (low != (u32)r->time)
			bad("ring %u: time %lu reconstructed from %x", ring, r->time, low);
	}
	if (r->time < ret->before)
		bad("ring %u: time %lu but called at %lu", ring, r->time, ret->before);
	if (r->time < floor)
		bad("ring %u: time goes back %lu -> %lu", ring, floor, r->time);
	return true;
}

/* Walks sub-buffers [first, offset) of one ring in `data`; `each` gets every record that is intact.
 */
struct walk {
	u32 ring;
	void (*each)(struct walk *w, const struct record *r, const struct pay *p);
	void *user;
	u64 cut, over;
	u64 count; /* out: as walked */
	bool any;
};

static void walk(struct walk *w, const struct reader *r, const u8 *data, u64 first, u64 offset)
{
	u64 floor = 0;

	for (u64 at = first; at < offset; at += r->sub_size) {
		const u8 *sub = data + (at & (r->size - 1));
		const struct abi_sub *h = (const struct abi_sub *)sub;
		u64 end = at + r->sub_size > offset ? offset : h->end, clock = h->begin;

		if (h->position != at || end <= at + ABI_SUB_HEADER || end > at + r->sub_size) {
			bad("ring %u: sub-buffer %lu of %lu: header says %lu, end %lu", w->ring, at,
			    offset, h->position, end);
			w->any = false;
			continue;
		}
		if (w->any && h->count != w->count)
			bad("ring %u: sub-buffer %lu counts %lu, walked to %lu", w->ring, at,
			    h->count, w->count);
		w->count = h->count;
		w->any = true;
		for (u64 in = ABI_SUB_HEADER; at + in < end;) {
			struct record one;
			struct pay pay;
			u32 step = record_parse(sub + in, end - at - in, &clock, &one);

			if (!step) {
				bad("ring %u: not walkable at %lu", w->ring, at + in);
				break;
			}
			if (in == ABI_SUB_HEADER && one.time != h->begin)
				bad("ring %u: begin %lu, first record %lu", w->ring, h->begin,
				    one.time);
			in += step;
			w->count++;
			if (!check_record(&one, floor, w->ring, &pay))
				continue;
			floor = one.time;
			if (w->cut && one.time > w->cut) {
				w->over++;
				continue;
			}
			if (w->over)
				bad("ring %u: before the cut, behind a record after it", w->ring);
			w->each(w, &one, &pay);
		}
	}
}

struct seen {
	u64 min, max, n;
};
struct snapshot {
	u64 since; /* all rings reach back to here */
	u32 incarnation[MAX_WHO];
	struct {
		u64 number, before;
	} returned[MAX_WHO][2];
	struct seen seen[MAX_WHO][2];
	u64 last[MAX_WHO][2]; /* of this ring */
};

static void each_of_snapshot(struct walk *w, const struct record *r, const struct pay *p)
{
	struct snapshot *s = w->user;
	u32 kind = id_kind(r->id);
	struct seen *seen = &s->seen[p->who][kind];

	if (p->generation != s->incarnation[p->who])
		return; /* of a killed predecessor: intact is all that is asked */
	if (s->last[p->who][kind] > p->number)
		bad("ring %u: who %u: number %lu after %lu", w->ring, p->who, p->number,
		    s->last[p->who][kind] - 1);
	s->last[p->who][kind] = p->number + 1;
	if (r->time < s->since)
		return;
	seen->n++;
	seen->min = MIN(seen->min, p->number);
	seen->max = MAX(seen->max, p->number);
}

void check_snapshot(struct region *region, u8 *copy, bool hold)
{
	const struct geometry *g = &region->geometry;
	u32 n = g->n_ring + g->n_side;
	static struct snapshot s;
	struct reader r[8];
	u64 offset[8], count[8], first[8], at[8], cut, took, where = 0;
	bool late;

	memset(&s, 0, sizeof(s));
	for (u32 w = 0; w < MAX_WHO; w++)
		for (u32 k = 0; k < 2; k++) {
			s.incarnation[w] = shared->incarnation[w];
			s.returned[w][k].before = load_acquire_u64(&shared->t[w].before[k]);
			s.returned[w][k].number = load_acquire_u64(&shared->t[w].number[k]);
			s.seen[w][k].min = ~0ull;
		}
	cut = record_clock_now(&record_clock);
	for (u32 i = 0; i < n; i++) {
		reader_init(&r[i], region->map, g, i);
		if (hold)
			reader_hold(&r[i], record_clock_now(&record_clock) + ABI_HOLD_NS);
	}
	(void)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
	for (u32 i = 0; i < n; i++)
		if (reader_position(&r[i], &offset[i], &count[i]) < 0)
			bad("ring %u: no position", i);
	for (u32 i = 0; i < n; i++) {
		at[i] = where;
		memcpy(copy + where, r[i].data, r[i].size);
		where += r[i].size;
	}
	for (u32 i = 0; i < n; i++) {
		u64 now, unused;

		if (reader_position(&r[i], &now, &unused) < 0)
			bad("ring %u: no position", i);
		first[i] = reader_first_whole(now, r[i].size, r[i].sub_size);
	}
	took = record_clock_now(&record_clock) - cut;
	for (u32 i = 0; i < n; i++)
		reader_release(&r[i]);
	late = took >= ABI_HOLD_NS || !hold;
	checked.snapshots++;
	checked.late += late;
	checked.longest_ns = MAX(checked.longest_ns, took);

	for (u32 i = 0; i < n; i++) {
		const struct abi_sub *h =
		    (const struct abi_sub *)(copy + at[i] + (first[i] & (r[i].size - 1)));

		if (first[i] >= offset[i]) {
			if (!late && offset[i] >= r[i].size)
				bad("ring %u: nothing left of %lu", i, offset[i]);
			if (first[i])
				s.since = cut; /* nothing can be said of numbers */
			continue;
		}
		if (offset[i] > r[i].size && (!late || !hold)) {
			u64 reach = (offset[i] - first[i]) * 100 / r[i].size;

			checked.reaches++;
			checked.reach = MIN(checked.reach, reach);
			if (reach < PERCENT && !late)
				bad("ring %u reaches back only %lu %% (took %lu us)", i, reach,
				    took / 1000);
		}
		if (first[i])
			s.since = MAX(s.since, h->begin);
	}
	for (u32 i = 0; i < n; i++) {
		struct walk w = {.ring = i, .each = each_of_snapshot, .user = &s, .cut = cut};

		memset(s.last, 0, sizeof(s.last));
		walk(&w, &r[i], copy + at[i], first[i], offset[i]);
		if (w.any && w.count != count[i])
			bad("ring %u: counted %lu, walked to %lu", i, count[i], w.count);
		checked.walked_off += w.over;
	}
	for (u32 w = 0; w < MAX_WHO; w++)
		for (u32 k = 0; k < 2; k++) {
			const struct seen *seen = &s.seen[w][k];
			u64 number = s.returned[w][k].number;

			if (seen->n && seen->max - seen->min + 1 != seen->n)
				bad("who %u kind %u: %lu..%lu but %lu records", w, k, seen->min,
				    seen->max, seen->n);
			if (!number || s.returned[w][k].before < s.since || late)
				continue;
			checked.returned++;
			if (!seen->n || seen->max < number - 1)
				bad("who %u kind %u: call %lu returned before the cut, newest kept "
				    "%ld",
				    w, k, number - 1, seen->n ? (long)seen->max : -1l);
		}
}

static void each_of_generation(struct walk *w, const struct record *r, const struct pay *p)
{
	const u32 *range = w->user;

	if (p->generation < range[0] || p->generation > range[1])
		bad("a record for generation %u in the ring of %u to %u", p->generation, range[0],
		    range[1]);
}

u64 check_quiet(struct region *region, u32 first, u32 last)
{
	u32 range[2] = {first, last};
	u64 total = 0;

	for (u32 i = 0; i < region->geometry.n_ring + region->geometry.n_side; i++) {
		struct walk w = {.ring = i, .each = each_of_generation, .user = range};
		struct reader r;
		u64 offset, count;

		reader_init(&r, region->map, &region->geometry, i);
		if (reader_position(&r, &offset, &count) < 0) {
			bad("ring %u: no position", i);
			continue;
		}
		walk(&w, &r, r.data, reader_first_whole(offset, r.size, r.sub_size), offset);
		if (offset && w.any && w.count != count)
			bad("ring %u: counted %lu, walked to %lu", i, count, w.count);
		total += count;
	}
	return total;
}

u64 check_lost(struct region *region, bool print)
{
	u64 all = 0, by[ABI_LOST_CAUSES] = {0};

	for (u32 i = 0; i < region->geometry.n_ring + region->geometry.n_side; i++) {
		struct reader r;

		reader_init(&r, region->map, &region->geometry, i);
		all += reader_lost(&r);
		for (u32 c = 0; c < ABI_LOST_CAUSES; c++)
			by[c] += reader_lost_by(&r, c);
	}
	if (print)
		printf("  lost: full %lu, held %lu, big %lu, busy %lu\n", by[0], by[1], by[2],
		       by[3]);
	return all;
}

void check_totals(struct region *region, u32 n)
{
	u64 written = 0, lost = check_lost(region, true);
	struct state o;

	writers_total(n, &o);
	for (u32 i = 0; i < region->geometry.n_ring + region->geometry.n_side; i++) {
		struct reader r;
		u64 offset, count;

		reader_init(&r, region->map, &region->geometry, i);
		if (reader_position(&r, &offset, &count) == 0)
			written += count;
	}
	if (written != o.number[0] + o.number[1] || lost != o.lost[0] + o.lost[1])
		bad("rings count %lu and lost %lu, threads %lu and %lu", written, lost,
		    o.number[0] + o.number[1], o.lost[0] + o.lost[1]);
	printf("  written %lu, of them by handlers %lu, straight to side rings %lu\n", written,
	       o.number[1], o.side);
}
