/* SPDX-License-Identifier: MIT */
#include "daemon/records.h"

/* Records are aligned to 4. volatile: the compiler must not look twice, since who writes there may have changed it between. */
typedef u64 __attribute__((aligned(4), may_alias)) SharedWord;

static inline u64 load_once(const u8 *p)
{
	return *(const volatile SharedWord *)p;
}

/* This runs for every record that is ever written to a disk: nothing is called for one of a fixed size, and one like the
 * record before it, which most are, is judged by one comparison: all of id and length is right if it is what was right
 * before. Where the next record begins is then known without waiting for the length to be loaded, so that a CPU is several
 * records ahead. Times never fall within a walk, so that the last one, and whole times, need be held against the bound. */
RecordsResult records_walk(const u8 *p, const u8 *end, const RecordsLimit *limit, Records *ret)
{
	const u64 mask = (1ull << ABI_STAMP_BITS) - 1, bound = limit->bound, none = UINT64_MAX;
	const ClassTable *classes = limit->classes;
	const u8 *begin = p, *last = p;
	u64 clock = limit->time, first = clock, same = none;
	u32 n = 0, length = 0;

	if (unlikely(clock > bound))
		return RECORDS_BAD;
	while (p < end) {
		u32 id, header = ABI_RECORD_HEADER, low;
		u64 head, step;

		if (end - p < ABI_RECORD_HEADER)
			return RECORDS_BAD;
		head = load_once(p);
		id = (u16)head;
		length = (u16)(head >> 16);
		step = ALIGN_UP(length, 4u);
		if (unlikely(step > (u64)(end - p)))
			return RECORDS_BAD;
		if (unlikely(id == ABI_ID_EXTENDED)) {
			u64 time;

			header = ABI_RECORD_EXTENDED;
			if (length < ABI_RECORD_EXTENDED)
				return RECORDS_BAD;
			id = (u32)(head >> 32);
			time = load_once(p + 8);
			if (time < clock || time > bound || id > ABI_ID_MAX)
				return RECORDS_BAD;
			clock = time;
		} else {
			if (unlikely(length < ABI_RECORD_HEADER))
				return RECORDS_BAD;
			/* what every reader does: one wrap, at most */
			clock += ((head >> 32) - clock) & mask;
		}
		if (likely(class_table_size(classes, id) == length - header)) {
			same = header == ABI_RECORD_HEADER ? (u32)head : none;
		} else {
			if (!id)
				return RECORDS_BAD;
			if (!class_table_known(classes, id))
				return limit->judge ? RECORDS_BAD : RECORDS_UNKNOWN;
			if (!class_table_check(classes, id, p + header, length - header))
				return RECORDS_BAD;
			same = none;
		}
		if (n++ == 0)
			first = clock;
		last = p;
		p += step;
		low = (u32)clock;
		while ((u64)(end - p) >= step && (u32)(head = load_once(p)) == same) {
			clock += ((head >> 32) - low) & mask;
			low = (u32)(head >> 32);
			last = p;
			p += step;
			n++;
		}
	}
	if (unlikely(clock > bound))
		return RECORDS_BAD;
	*ret = (Records){ .n = n,
			  .size = n ? (u32)(last - begin) + length : 0,
			  .first = first,
			  .last = clock,
			  .clock = n ? clock : limit->clock,
			  .met = n,
			  .taken = (u32)(end - begin) };
	return RECORDS_GOOD;
}

RecordsResult records_sift(u8 *p, u8 *end, const RecordsLimit *limit, Records *ret)
{
	u8 *begin = p, *to = p;
	u64 decode = limit->time, clock = limit->clock;
	Records w = { 0 };

	while (p < end) {
		u64 time = decode;
		struct record r;
		u32 step = record_parse(p, (u64)(end - p), &time, &r);
		bool wrong;

		if (!step)
			break;
		if (!limit->judge && !class_table_known(limit->classes, r.id))
			return RECORDS_UNKNOWN;
		wrong = r.time < clock || r.time > limit->bound;
		if (wrong)
			r.time = clock;
		if (class_table_check(limit->classes, r.id, r.body, r.body_size)) {
			/* from the record before it that a reader sees, which need not be the one before it in the ring */
			if (w.n && !r.extended && r.time - w.last >= COMPACT_SPAN)
				goto out;
			if (wrong) {
				record_stamp(p, r.extended, r.time);
				w.clamped++;
			}
			if (to != p)
				memmove(to, p, r.length);
			if (w.n++ == 0)
				w.first = r.time;
			w.last = r.time;
			w.size = (u32)(to - begin) + r.length;
			to += step;
		} else {
			w.left_out++;
		}
		/* also behind one that is left out: its writer's next stamp counts from it */
		clock = decode = r.time;
		w.met++;
		p += step;
	}
	w.broken = p < end;
out:
	w.clock = clock;
	w.taken = (u32)(p - begin);
	*ret = w;
	return RECORDS_GOOD;
}
