/* SPDX-License-Identifier: MIT */
/* The way of an event: from the inline check of the program to record_write(), once for each session that wants
 * it. */
#include "lib/attach.h"
#include "lib/control.h"

_Static_assert(sizeof(struct tracer_part) == sizeof(struct record_part) &&
		       offsetof(struct tracer_part, size) == offsetof(struct record_part, size) &&
		       offsetof(struct tracer_part, string) == offsetof(struct record_part, string),
	       "the public part is a record's");

uint32_t tracer_string_(unsigned char *to, const char *string, uint32_t room)
{
	size_t n = strnlen(string, 0xFFFF);
	u8 *hole;

	if (n + 1 > room)
		return (u32)n + 1;
	memcpy(to, string, n);
	/* Somebody may shorten it meanwhile; a NUL inside would end the field early for a reader, and all
	 * that follows would be taken for something else. */
	hole = memchr(to, 0, n);
	if (unlikely(hole))
		memset(hole, '#', (size_t)(to + n - hole));
	to[n] = 0;
	return (u32)n + 1;
}

/* One record for slot i, whose session may have ended, or not begun here. */
static void record_to(u32 i, u32 index, u64 ids, const struct tracer_part *part, u32 n)
{
	struct slot *s = &process.slots[i];
	u32 last = 0;

	/* Twice at most: a slot that has a new generation by now is tried once more. */
	for (u32 turn = 0; turn < 2; turn++) {
		u32 now = load_acquire_u32(&control_page->head.slot_generation[i]);
		u32 generation = load_acquire_u32(&s->generation), id;
		bool known;

		if (!now || (turn && generation == last))
			return; /* over; and the mask's bit is about to go */
		if (generation != now) {
			(void)fetch_add_relaxed_u64(&process.missed, 1);
			return;
		}
		id = attach_id(i, index, &known);
		if (!id) {
			if (!known)
				(void)fetch_add_relaxed_u64(&process.missed, 1);
			return;
		}
		if (record_write(s, generation, id, ids, process.producer, &process.clock,
				 (const struct record_part *)part, n) != RECORD_STALE)
			return;
		last = generation;
	}
}

void tracer_record_(const struct tracer_event *event, uint32_t signature, struct tracer_part *part, uint32_t n)
{
	struct tracer_state *state = event->state;
	u32 index = (u32)(state - process.states), generation;
	u64 bits = __atomic_load_n(event->mask, __ATOMIC_RELAXED), ids;

	if (unlikely(load_relaxed_u32(&process.vforks) || load_relaxed_u32(&process.everyone)) &&
	    fork_marked(bits & ~__atomic_load_n(&state->quiet, __ATOMIC_RELAXED)))
		return;
	/* acquire: what the daemon wrote before it moved the generation */
	generation = load_acquire_u32(&control_page->head.generation);
	if (unlikely(load_acquire_u32(&state->generation) != generation)) {
		attach_refresh(index);
		generation = load_acquire_u32(&control_page->head.generation);
	}
	/* Without an answer of this generation, each slot says what it knows (record_to); with one, `quiet` says
	 * it for all. */
	if (likely(load_acquire_u32(&state->generation) == generation))
		bits &= ~__atomic_load_n(&state->quiet, __ATOMIC_RELAXED);
	if (!bits)
		return;
	/* Another translation unit has declared this name with other fields, and its descriptor was taken:
	 * what we have would be read as something else. */
	if (unlikely(event->signature != signature)) {
		(void)fetch_add_relaxed_u64(&process.missed, 1);
		return;
	}
	ids = fork_identity();
	for (; bits; bits &= bits - 1)
		record_to((u32)__builtin_ctzll(bits), index, ids, part, n);
}
