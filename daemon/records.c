/* SPDX-License-Identifier: MIT */
#include "daemon/records.h"

/* Records are aligned to 4. volatile: the compiler must not look twice, since who writes there may have changed it between. */
typedef u64 __attribute__((aligned(4), may_alias)) SharedWord;

static inline u64 load_once(const u8 *p)
{
	return *(const volatile SharedWord *)p;
}

/* This runs for every record that is ever written to a disk: nothing is called for one of a fixed size. */
RecordsResult records_walk(const u8 *p, const u8 *end, const RecordsLimit *limit, Records *ret)
{
	const u64 mask = (1ull << ABI_STAMP_BITS) - 1, bound = limit->bound;
	const ClassTable *classes = limit->classes;
	const u8 *begin = p, *last = p;
	u64 clock = limit->time, first = clock;
	u32 n = 0, length = 0;

	for (; p < end; n++) {
		u32 step, id, header = ABI_RECORD_HEADER;
		u64 head;

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
			if (time < clock || id > ABI_ID_MAX)
				return RECORDS_BAD;
			clock = time;
		} else {
			if (unlikely(length < ABI_RECORD_HEADER))
				return RECORDS_BAD;
			/* what every reader does: one wrap, at most */
			clock += ((head >> 32) - clock) & mask;
		}
		if (unlikely(clock > bound))
			return RECORDS_BAD;
		if (unlikely(class_table_size(classes, id) != length - header)) {
			if (!id)
				return RECORDS_BAD;
			if (!class_table_known(classes, id))
				return limit->judge ? RECORDS_BAD : RECORDS_UNKNOWN;
			if (!class_table_check(classes, id, p + header, length - header))
				return RECORDS_BAD;
		}
		if (n == 0)
			first = clock;
		last = p;
		p += step;
	}
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
