/* SPDX-License-Identifier: MIT */
/* The way of an event: from the inline check of the program to record_write(), once for each
 * session that wants it. */
#include "lib/attach.h"
#include "lib/control.h"
#include "lib/quick.h"
#include "lib/request.h"

#ifdef __x86_64__
#include <emmintrin.h>
#endif

_Static_assert(sizeof(struct tracer_part) == sizeof(struct record_part) &&
		   offsetof(struct tracer_part, size) == offsetof(struct record_part, size) &&
		   offsetof(struct tracer_part, string) == offsetof(struct record_part, string),
	       "the public part is a record's");

/* ---- strings ----
 * Measured, then copied; somebody may shorten it in between. A NUL inside would end the field early
 * for a reader, and all that follows would be taken for something else: so what was copied is what
 * is tested. */
#define STRING_MAX 0xFFFF

#if defined(__SANITIZE_ADDRESS__)
#define STRING_PLAIN 1 /* the sanitizer knows no pages */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define STRING_PLAIN 1
#endif
#endif

#if defined(__x86_64__) && !defined(STRING_PLAIN)
#define STRING_WIDE 1
/* By itself: three calls into libc cost more than the rest of a short record. Loads for the measure
 * are aligned, so that they stay inside the page (and a checker of memory takes them); those of the
 * copy stay inside the string. */
static inline size_t string_length(const char *s)
{
	const __m128i zero = _mm_setzero_si128();
	const __m128i *p = (const __m128i *)((uintptr_t)s & ~(uintptr_t)15);
	u32 off = (u32)((uintptr_t)s & 15);
	u32 mask = (u32)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_load_si128(p), zero)) >> off;
	size_t n = 16 - off;

	if (mask)
		return (size_t)__builtin_ctz(mask);
	for (; n < STRING_MAX; n += 16) {
		mask = (u32)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_load_si128(++p), zero));
		if (mask)
			return MIN(n + (size_t)__builtin_ctz(mask), (size_t)STRING_MAX);
	}
	return STRING_MAX;
}

static inline u64 zeros(u64 v)
{
	return (v - 0x0101010101010101ull) & ~v & 0x8080808080808080ull;
}

/* What is tested must be what is stored. A plain load may be done over again by the compiler (gcc 12 did:
 * movdqu twice, one for the test and one for the store, and a NUL came between them); behind this it
 * has to take the value for anything. */
#define only_once(v)   __asm__ volatile("" : "+r"(v))
#define only_once_x(v) __asm__ volatile("" : "+x"(v))

/* n bytes; true if there may be a NUL among them. */
static inline bool string_copy(u8 *to, const char *s, size_t n)
{
	if (n >= 16) {
		const __m128i zero = _mm_setzero_si128();
		int found = 0;
		__m128i v;

		for (size_t i = 0; i + 16 < n; i += 16) {
			v = _mm_loadu_si128((const __m128i *)(s + i));
			only_once_x(v);
			found |= _mm_movemask_epi8(_mm_cmpeq_epi8(v, zero));
			_mm_storeu_si128((__m128i *)(to + i), v);
		}
		v = _mm_loadu_si128((const __m128i *)(s + n - 16));
		only_once_x(v);
		found |= _mm_movemask_epi8(_mm_cmpeq_epi8(v, zero));
		_mm_storeu_si128((__m128i *)(to + n - 16), v);
		return found;
	}
	if (n >= 8) {
		u64 a, b;

		memcpy(&a, s, 8);
		memcpy(&b, s + n - 8, 8);
		only_once(a);
		only_once(b);
		memcpy(to, &a, 8);
		memcpy(to + n - 8, &b, 8);
		return zeros(a) | zeros(b);
	}
	if (n >= 4) {
		u32 a, b;

		memcpy(&a, s, 4);
		memcpy(&b, s + n - 4, 4);
		only_once(a);
		only_once(b);
		memcpy(to, &a, 4);
		memcpy(to + n - 4, &b, 4);
		return zeros(a | (u64)b << 32);
	}
	for (size_t i = 0; i < n; i++)
		to[i] = *(const volatile u8 *)(s + i);
	return n; /* not worth a test: it is made again */
}
#else
static inline size_t string_length(const char *s)
{
	return strnlen(s, STRING_MAX);
}

static inline bool string_copy(u8 *to, const char *s, size_t n)
{
	memcpy(to, s, n);
	return true;
}
#endif

static __attribute__((noinline)) void string_fill(u8 *to, size_t n)
{
	u8 *hole = memchr(to, 0, n);

	if (hole)
		memset(hole, '#', (size_t)(to + n - hole));
}

/* Measured and copied, each by itself. */
static __attribute__((noinline)) u32 string_twice(u8 *to, const char *string, u32 room)
{
	size_t n = string_length(string);

	if (unlikely(n + 1 > room))
		return (u32)n + 1;
	if (unlikely(string_copy(to, string, n)))
		string_fill(to, n);
	to[n] = 0;
	return (u32)n + 1;
}

#ifndef STRING_WIDE
uint32_t tracer_string_(unsigned char *to, const char *string, uint32_t room)
{
	return string_twice(to, string, room);
}
#else
/* Both at once, in pieces of 16 bytes: what is stored is what the NUL was looked for in, and nothing is to be tested
 * again. A piece reads behind the string, though never into another page; what it finds there is not stored (it is
 * the program's, and might be a secret). A checker of memory would complain of such a load: under those there are no
 * restartable sequences. */
uint32_t tracer_string_(unsigned char *to, const char *string, uint32_t room)
{
	static const u8 keep[32] = { 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255 };

	if (unlikely(!sequence_offset))
		return string_twice(to, string, room);
	for (u32 i = 0; i + 16 <= room && ((uintptr_t)(string + i) & 4095) <= 4096 - 16; i += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(string + i));
		u32 found;

		only_once_x(v);
		found = (u32)_mm_movemask_epi8(_mm_cmpeq_epi8(v, _mm_setzero_si128()));
		if (found) {
			u32 n = (u32)__builtin_ctz(found);

			v = _mm_and_si128(v, _mm_loadu_si128((const __m128i *)(keep + 16 - n)));
			_mm_storeu_si128((__m128i *)(to + i), v);
			return i + n + 1;
		}
		_mm_storeu_si128((__m128i *)(to + i), v);
	}
	return string_twice(to, string, room);
}
#endif

/* ---- records ---- */

/* One record for slot i, whose session may have ended, or not begun here. True if it was written. */
static bool record_carefully(u32 i, u32 index, u64 ids, const struct record_part *part, u32 n)
{
	struct slot *s = &process.slots[i];

	/* Twice at most: a slot that was given another ring meanwhile is tried once more, of whatever generation that is (who
	 * changes its user gets another owner's ring of the same session). Lost both times, it is missed. */
	for (u32 turn = 0;; turn++) {
		u32 now = load_acquire_u32(&control_page->head.slot_generation[i]);
		u32 generation = load_acquire_u32(&s->generation), id, flagged = 0;
		typeof(&record_write) write;
		enum record_result r;

		if (!now)
			return false; /* over; and the mask's bit is about to go */
		if (turn == 2 || generation != now || index >= load_acquire_u32(&s->n_ids)) {
			(void)fetch_add_relaxed_u64(&process.missed, 1);
			return false;
		}
		id = attach_plain(i, index);
		if (!id) {
			flagged = attach_flagged(i, index);
			/* it may have lost its flags between the two looks */
			id = flagged ? flagged & 0xFFFF : attach_id(i, index);
		}
		if (!id)
			return false;
		write = flagged >> 16 & WIRE_FLAG_PINNED ? record_write_pinned : record_write;
		r = write(s, generation, id, ids, load_relaxed_u32(&process.producer), &process.clock, part, n);
		if (r != RECORD_STALE)
			return r == RECORD_DONE;
	}
}

static bool record_refused(const struct tracer_event *event, u32 signature)
{
	struct tracer_state *state = event->state;

	if (unlikely(load_relaxed_u32(&process.vforks)) &&
	    fork_marked(__atomic_load_n(event->mask, __ATOMIC_RELAXED) &
			~__atomic_load_n(&state->quiet, __ATOMIC_RELAXED)))
		return true;
	/* Another translation unit has declared this name with other fields, and its descriptor was
	 * taken: what we have would be read as something else. */
	if (unlikely(event->signature != signature)) {
		(void)fetch_add_relaxed_u64(&process.missed, 1);
		return true;
	}
	return false;
}

/* No answer of this generation: it is asked for, and each slot says what it knows. Or a slot has no ring of the
 * generation that it was answered with, or something of its own to do with this event. */
static __attribute__((noinline)) void record_all(const struct tracer_event *event, u64 wanted,
						 const struct record_part *part, u32 n)
{
	struct tracer_state *state = event->state;
	u32 index = (u32)(state - process.states);
	bool done = false;
	u64 ids;

	if (wanted == TRACER_ASK_) {
		u32 answered;

		wanted = __atomic_load_n(event->mask, __ATOMIC_RELAXED);
		attach_refresh(index);
		/* acquire, both: what the answer said, and what the daemon wrote before it moved the
		 * generation */
		answered = load_acquire_u32(&state->generation);
		if (!answered)
			answered = load_acquire_u32(&state->trigger);
		if (answered == load_acquire_u32(&control_page->head.generation))
			wanted &= ~__atomic_load_n(&state->quiet, __ATOMIC_RELAXED);
		if (!wanted)
			return;
	}
	ids = fork_identity();
	for (; wanted; wanted &= wanted - 1)
		done |= record_carefully((u32)__builtin_ctzll(wanted), index, ids, part, n);
	if (done && load_relaxed_u32(&state->trigger))
		request_event(index);
}

/* The usual record for slot i; false: it was not written, and nothing has happened. mult: 0 if it is not known. With an
 * answer of the page's own generation, the slots are those of the page. */
static inline bool record_quickly(const struct tracer_event *event, size_t i, u64 ids, u64 mult, void *head, u32 size)
{
	const struct slot *s = &process.slots[i];
	/* acquire: pairs with the release in slot_attach() */
	u32 generation = load_acquire_u32(&s->generation);
	u32 id = attach_id(i, (size_t)(event->state - process.states));

	if (!mult)
		mult = load_relaxed_u64(&process.mult); /* behind the generation, which publishes it */
	return likely(generation && id) && quick_write(s, generation, id, ids, mult, head, size) == SEQUENCE_DONE;
}

/* For the one slot in `wanted`, with all that a record can meet. Into the ring that is there, as long as there is one: the
 * records before it went there. */
static __attribute__((noinline)) void record_slot(const struct tracer_event *event, u64 wanted,
						  const struct record_part *part, u32 n)
{
	size_t i = (size_t)__builtin_ctzll(wanted);
	struct slot *s = &process.slots[i];
	/* acquire: pairs with the release in slot_attach() */
	u32 generation = load_acquire_u32(&s->generation);
	u32 id = attach_id(i, (size_t)(event->state - process.states));

	if (!generation || !id ||
	    record_write(s, generation, id, fork_identity(), load_relaxed_u32(&process.producer), &process.clock,
			 part, n) == RECORD_STALE)
		record_all(event, wanted, part, n);
}

void tracer_record_(const struct tracer_event *event, uint64_t wanted, uint32_t signature,
		    struct tracer_part *part, uint32_t n)
{
	if (record_refused(event, signature))
		return;
	if (wanted == TRACER_ASK_) {
		record_all(event, wanted, (const struct record_part *)part, n);
		return;
	}
	for (; wanted; wanted &= wanted - 1)
		record_slot(event, wanted & -wanted, (const struct record_part *)part, n);
}

/* The same once more for the one slot in `wanted`, whatever the short way could not do. */
static __attribute__((noinline)) void record_again(const struct tracer_event *event, u64 wanted, void *head,
						   u32 size)
{
	const struct record_part part = { head, size, 0 };

	record_slot(event, wanted, &part, 1);
}

/* Several sessions, a clock that is read by a call, or more than the short way takes. */
static __attribute__((noinline)) void record_each(const struct tracer_event *event, u64 wanted, void *head,
						  u32 size)
{
	bool quick = sequence_offset && quick_size(size);
	u64 ids;

	if (wanted == TRACER_ASK_) {
		const struct record_part part = { head, size, 0 };

		record_all(event, wanted, &part, 1);
		return;
	}
	ids = fork_identity();
	for (; wanted; wanted &= wanted - 1) {
		size_t i = (size_t)__builtin_ctzll(wanted);

		if (unlikely(!quick || !record_quickly(event, i, ids, 0, head, size)))
			record_again(event, 1ull << i, head, size);
	}
}

/* Short for one session and the counter, with whatever else there may be behind a call at the end: what has to be kept
 * over calls costs more than what is done with it. */
void tracer_record_one_(const struct tracer_event *event, uint64_t wanted, uint32_t signature, void *head,
			uint32_t size)
{
	/* relaxed: one value per boot, and 0 until it is known */
	u64 mult = load_relaxed_u64(&process.quick);

	if (record_refused(event, signature))
		return;
	if (unlikely(!mult || wanted & (wanted - 1) || !quick_size(size))) {
		record_each(event, wanted, head, size);
		return;
	}
	if (unlikely(!record_quickly(event, (size_t)__builtin_ctzll(wanted), fork_identity_by_key(), mult, head, size)))
		record_again(event, wanted, head, size);
}
