/* SPDX-License-Identifier: MIT */
/* Two kinds of wrong are told apart. A sub-buffer whose header does not say what it must (position,
 * end) is left out whole, since what lies in it may be of an older lap; where the chain of records
 * breaks, the rest of that sub-buffer is. A record that can be stepped over but is not what its
 * class says (or has no class) is left out alone. Everything else is kept, also what is older: the
 * program that scribbled over its ring is the very one whose last seconds are wanted. Each gap is
 * counted, by the headers around it, and said in the trace as discarded events and missing packet
 * numbers.
 *
 * Time: a record stamped later than its neighbours allow is put back to the record before it. What
 * is stamped behind the cut, and is followed by nothing from before it, is what was recorded during
 * the copy: that is left out. If something from before the cut follows, the stamp was a lie. */
#include "daemon/sieve.h"

#include "daemon/records.h"
#include "daemon/trace/packet.h"

typedef struct {
	Sieve *out;
	CaptureRing *ring;
	ClassTable *classes;
	const SieveLimit *limit;
	size_t allocated;

	/* Time. A compact stamp counts from `decode`: the time of the record before it while that
	 * is believed. Of records behind the cut only those that say their whole time move it: a
	 * writer counts from them, and a lie among the others must not spoil what follows. */
	u64 clock; /* of the newest record that is believed */
	u64 decode;
	u64 last_kept; /* what a reader's clock shows at the end of the open piece */
	u64 bound;     /* no record of the sub-buffer in hand is newer */

	u64 first_count,
	    expected; /* records before the first good header; before the position in hand */
	u64 bad;      /* unusable records behind the first good header, so far */
	u64 lost;     /* by the newest header */
	u64 lost_base;
	bool started;

	bool open; /* a piece is being filled */
	u8 *to;    /* where the next record goes: behind what is kept of this sub-buffer */

	/* what is stamped behind the cut, at the end of what was walked */
	bool beyond;
	size_t beyond_piece; /* the piece it begins in, and that piece's state before it */
	u32 beyond_size, beyond_records;
	u64 beyond_kept, beyond_bad;
} Walk;

/* ---- pieces ---- */

static int piece_begin(Walk *w, u64 position, u64 begin)
{
	Sieve *s = w->out;
	u64 subs = 0;

	if (s->n == w->allocated) {
		size_t n = w->allocated ? w->allocated * 2 : 64;
		Piece *p = reallocarray(s->pieces, n, sizeof(*p));

		if (!p)
			return -ENOMEM;
		s->pieces = p;
		w->allocated = n;
	}
	if (s->n > 0)
		subs = (position - s->pieces[s->n - 1].position) / w->ring->sub_size;
	s->pieces[s->n++] = (Piece){
	    .records = w->to,
	    .begin = begin,
	    .end = begin,
	    .position = position,
	    .discarded = add_bounded(w->lost - w->lost_base, w->bad),
	    .gap = subs > 1 ? (u32)subs - 1 : 0,
	};
	w->last_kept = begin;
	w->open = true;
	return 0;
}

/* ---- time ---- */

static void beyond_begin(Walk *w)
{
	Sieve *s = w->out;

	w->beyond = true;
	w->beyond_piece = w->open ? s->n - 1 : s->n;
	w->beyond_size = w->open ? s->pieces[s->n - 1].size : 0;
	w->beyond_records = w->open ? s->pieces[s->n - 1].n_records : 0;
	w->beyond_kept = w->beyond_bad = 0;
}

/* What was taken for newer than the cut turns out to be older: all of it gets the time of the last
 * record that was believed. */
static void beyond_clamp(Walk *w)
{
	Sieve *s = w->out;

	for (size_t i = w->beyond_piece; i < s->n; i++) {
		bool partly = i == w->beyond_piece && w->beyond_records > 0;
		Piece *piece = &s->pieces[i];
		u8 *p = piece->records + (partly ? ALIGN_UP(w->beyond_size, 4u) : 0);

		while (p < piece->records + piece->size) {
			u16 head[2]; /* id and length of a record that was parsed before */

			memcpy(head, p, sizeof(head));
			record_stamp(p, head[0] == ABI_ID_EXTENDED, w->clock);
			p += ALIGN_UP((u32)head[1], 4u);
		}
		if (!partly)
			piece->begin = w->clock;
		piece->end = w->clock;
	}
	w->last_kept = w->clock;
	w->bad = add_bounded(w->bad, w->beyond_bad);
	s->clamped += w->beyond_kept;
	w->beyond = false;
}

/* Puts the time of the record at p right. False: it is behind the cut, until something else shows.
 */
static bool record_time(Walk *w, struct record *r, u8 *p)
{
	if (r->time > w->limit->cut && w->bound == w->limit->cut) {
		if (!w->beyond)
			beyond_begin(w);
		if (r->extended)
			w->decode = r->time;
		return false;
	}
	if (w->beyond)
		beyond_clamp(w);
	if (r->time < w->clock || r->time > w->bound) {
		r->time = w->clock;
		record_stamp(p, r->extended, r->time);
		w->out->clamped++;
	}
	w->clock = w->decode = r->time;
	return true;
}

/* ---- records ---- */

static int record_keep(Walk *w, u64 position, const struct record *r, const u8 *p, u32 step,
		       bool before)
{
	Piece *piece;

	/* A compact stamp says how far it is from the record before it, which may have been left
	 * out: then a new packet says the whole time. */
	if (!w->open || (before && !r->extended && r->time - w->last_kept >= COMPACT_SPAN)) {
		int k = piece_begin(w, position, before ? r->time : w->clock);

		if (k < 0)
			return k;
	}
	piece = &w->out->pieces[w->out->n - 1];
	if (before)
		piece->end = w->last_kept = r->time;
	else
		w->beyond_kept++;
	if (w->to != p)
		memmove(w->to, p, r->length);
	piece->size = (u32)(w->to - piece->records) + r->length;
	piece->n_records++;
	w->to += step;
	class_table_use(w->classes, r->id);
	return 0;
}

/* Walks the records at [p, end) of the sub-buffer at `position`. *ret_whole: the chain ended where
 * it must. */
static int sub_walk(Walk *w, u64 position, u8 *p, u8 *end, bool *ret_whole)
{
	u64 n = 0;
	int k = 0;

	w->open = false;
	w->to = p;
	while (p < end && k == 0) {
		u64 clock = w->decode;
		struct record r;
		u32 step = record_parse(p, (u64)(end - p), &clock, &r);
		bool before;

		if (step == 0 || step > (u64)(end - p))
			break;
		n++;
		/* also of a record that is not kept: the writer counts from it */
		before = record_time(w, &r, p);
		if (!class_table_check(w->classes, r.id, r.body, r.body_size)) {
			if (before)
				w->bad++;
			else
				w->beyond_bad++;
		} else if (before && r.time < w->limit->keep_since)
			w->out->trimmed++;
		else
			k = record_keep(w, position, &r, p, step, before);
		p += step;
	}
	w->expected = add_bounded(w->expected, n);
	*ret_whole = p == end;
	return k;
}

/* ---- sub-buffers ---- */

/* The header of the sub-buffer at `position`, and where its content ends. False: it cannot be
 * believed. */
static bool sub_header(const Walk *w, u64 position, struct abi_sub *ret, u64 *ret_end)
{
	const CaptureRing *ring = w->ring;
	u64 behind = position + ring->sub_size;

	if (ring->offset < position + ABI_SUB_HEADER)
		return false;
	memcpy(ret, ring->copy + (position - ring->first), sizeof(*ret));
	*ret_end = behind <= ring->offset ? ret->end : ring->offset;
	return ret->position == position && *ret_end > position + ABI_SUB_HEADER &&
	       *ret_end <= behind && *ret_end % 4 == 0;
}

/* Takes over what a header says, held to what can be. */
static void sub_enter(Walk *w, u64 position, const struct abi_sub *h, u64 total)
{
	u64 cut = w->limit->cut, next_end;
	struct abi_sub next;

	if (!w->started)
		w->first_count = w->expected = MIN(h->count, total);
	else if (h->count <= total && h->count > w->expected) {
		w->bad = add_bounded(w->bad, h->count - w->expected); /* what is missing in between */
		w->expected = h->count;
	}
	w->lost = MIN(MAX(w->lost, h->lost), w->out->lost);
	if (!w->started)
		w->lost_base = w->lost;
	w->started = true;

	w->bound = cut;
	if (h->begin > cut) {
		w->decode = h->begin;
		return;
	}
	if (w->beyond)
		beyond_clamp(w);
	if (h->begin < w->clock)
		w->out->clamped++;
	w->clock = w->decode = MAX(w->clock, h->begin);
	if (sub_header(w, position + w->ring->sub_size, &next, &next_end) &&
	    next.begin >= w->clock && next.begin <= cut)
		w->bound = next.begin;
}

static int ring_walk(Walk *w, u64 total)
{
	CaptureRing *ring = w->ring;

	for (u64 position = ring->first; position < ring->offset; position += ring->sub_size) {
		u8 *base = ring->copy + (position - ring->first);
		struct abi_sub h;
		bool whole;
		u64 end;
		int r;

		if (!sub_header(w, position, &h, &end)) {
			w->out->corrupt_subs++;
			continue;
		}
		sub_enter(w, position, &h, total);
		r = sub_walk(w, position, base + ABI_SUB_HEADER, base + (end - position), &whole);
		if (r < 0)
			return r;
		if (!whole)
			w->out->corrupt_subs++;
	}
	if (w->started && total > w->expected)
		w->bad = add_bounded(w->bad, total - w->expected);
	return 0;
}

/* ---- the end ---- */

/* What is stamped behind the cut and followed by nothing older was recorded during the copy. */
static void beyond_cut(Walk *w)
{
	Sieve *s = w->out;
	Piece *piece;

	if (!w->beyond)
		return;
	s->after_cut = w->beyond_kept + w->beyond_bad;
	if (w->beyond_piece >= s->n)
		return;
	piece = &s->pieces[w->beyond_piece];
	piece->size = w->beyond_size;
	piece->n_records = w->beyond_records;
	s->n = w->beyond_piece + (w->beyond_records > 0);
}

/* Packets follow one another without a gap in time where none is missing between them, so that what
 * was lost between two sub-buffers falls into the time of the first. */
static void pieces_finish(Walk *w)
{
	Sieve *s = w->out;

	if (s->n == 0)
		return;
	s->discarded_base = s->pieces[0].discarded;
	for (size_t i = 0; i + 1 < s->n; i++) {
		Piece *p = &s->pieces[i];

		if (p[1].gap == 0) {
			p->end = p[1].begin;
			p->discarded = p[1].discarded;
		}
	}
	s->pieces[s->n - 1].end = w->limit->cut;
	s->pieces[s->n - 1].discarded = add_bounded(s->lost - w->lost_base, w->bad);
	for (size_t i = 0; i < s->n; i++)
		s->kept += s->pieces[i].n_records;
}

/* Every record that was ever written is one of: kept, trimmed, after the cut, overwritten, corrupt.
 * The count is the producers' word, held to what the positions allow and to what was seen. Where
 * the oldest header cannot be believed, what its sub-buffer held counts as overwritten, like all
 * before it. */
static void ring_account(Walk *w, u64 total)
{
	Sieve *s = w->out;
	const CaptureRing *ring = w->ring;
	u64 seen = s->kept + s->trimmed + s->after_cut;
	u64 rest = total > seen ? total - seen : 0, older = ring->oldest_count;

	s->written = seen + rest;
	if (older == UINT64_MAX)
		older = w->started ? w->first_count : ring->first >= ring->offset ? rest : 0;
	s->overwritten = MIN(older, rest);
	rest -= s->overwritten;
	if (ring->oldest < ring->first && w->started && w->first_count > s->overwritten) {
		/* whole, and not copied because nobody asked for it */
		u64 skipped = MIN(w->first_count - s->overwritten, rest);

		s->trimmed += skipped;
		rest -= skipped;
	}
	s->corrupt = rest;
}

int sieve_ring(Sieve *ret, CaptureRing *ring, ClassTable *classes, const SieveLimit *limit)
{
	_cleanup_(sieve_clear) Sieve s = {.reach = 1};
	Walk w = {.out = &s, .ring = ring, .classes = classes, .limit = limit};
	/* a record takes 8 bytes at least */
	u64 total = MIN(ring->count, ring->offset / ABI_RECORD_HEADER);
	int r;

	for (u32 i = 0; i < ABI_LOST_CAUSES; i++)
		s.lost = add_bounded(s.lost, ring->lost[i]);
	if (ring->broken) {
		s.corrupt_subs = 1;
		s.written = s.corrupt = total;
	} else if (ring->offset > 0) {
		r = ring_walk(&w, total);
		if (r < 0)
			return r;
		beyond_cut(&w);
		pieces_finish(&w);
		ring_account(&w, total);
	}
	if (ring->offset >= ring->size)
		s.reach =
		    ring->broken || ring->oldest >= ring->offset
			? 0
			: MIN(1.0, (double)(ring->offset - ring->oldest) / (double)ring->size);
	*ret = s;
	s = (Sieve){0};
	return 0;
}

void sieve_clear(Sieve *s)
{
	free(s->pieces);
	*s = (Sieve){0};
}

/* ---- less of it ---- */

/* Takes records off the front of a piece until its packet fits. */
static void piece_shorten(Sieve *s, Piece *piece, u64 budget)
{
	u64 clock = piece->begin;

	while (piece->n_records > 0 && packet_size(piece->size) > budget) {
		struct record r;
		u32 step = record_parse(piece->records, ALIGN_UP(piece->size, 4u), &clock, &r);

		piece->records += step;
		piece->size -= MIN(step, piece->size);
		piece->n_records--;
		s->kept--;
		s->trimmed++;
	}
	if (piece->n_records > 0) {
		struct record r;

		/* the packet's time is its first record's, which a compact stamp counts from */
		(void)record_parse(piece->records, ALIGN_UP(piece->size, 4u), &clock, &r);
		piece->begin = r.time;
	}
}

void sieve_trim(Sieve *s, size_t n, u64 budget)
{
	for (size_t i = 0; i < n; i++) {
		s->kept -= s->pieces[i].n_records;
		s->trimmed += s->pieces[i].n_records;
		s->discarded_base = s->pieces[i].discarded;
	}
	if (n < s->n) {
		piece_shorten(s, &s->pieces[n], budget);
		if (s->pieces[n].n_records == 0) {
			s->discarded_base = s->pieces[n].discarded;
			n++;
		}
	}
	if (n == 0)
		return;
	s->n -= n;
	memmove(s->pieces, s->pieces + n, s->n * sizeof(*s->pieces));
}
