/* SPDX-License-Identifier: MIT */
/* Rings whose bytes are the input's: honest ones, edited. Copied and judged as a snapshot does;
 * then every packet that would be written is read as strictly as CTF allows, and the sums must add
 * up. An input is a list of edits of eight bytes: u8 where (ring, and whether its line or its
 * data), u8 how (store 1, 2, 4 bytes, xor a bit, fill), u16 place (in units of 4 in the data), u32
 * value. The first byte chooses policy and limits.
 *
 * Built as a libFuzzer target where the compiler has it; elsewhere main() replays files and
 * directories and goes on with random edits: fuzz-ring [-r RANDOM INPUTS] [-s SEED] [PATH...]. */
#include <stdio.h>
#include <time.h>

#include "daemon/capture.h"
#include "daemon/sieve.h"
#include "daemon/trace/packet.h"
#include "tests/fuzz/replay.h"

#define N_RING 2
#define RINGS  (N_RING + 1)

/* A ring every class of record, six laps or less than one. */
static const struct geometry geometry = {
    14, 12, 14, 12, N_RING, 1, ABI_POLICY_OVERWRITE, ABI_CONTEXT_VPID};
static struct event_class *class_number, *class_text;
static TraceClass classes[2];
static u8 *template_map, *map;
static u64 map_size;

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "fuzz-ring: %s\n", what);
	abort();
}

static struct event_class *make_class(const char *name, u8 type)
{
	struct event_class *c = calloc(1, sizeof(*c) + sizeof(c->fields[0]));

	require(c, "memory");
	c->provider = (char *)"fuzz";
	c->name = (char *)name;
	c->n_fields = 1;
	c->fields[0] = (struct class_field){(char *)"field", type, TRACER_SHAPE_ONE, 0};
	return c;
}

/* Appends by the writer's rules (abi.h 5), with times of its own. */
static void append(u8 *to, u32 ring, u32 id, u64 time, const void *fields, u32 size)
{
	struct abi_ring *line = (struct abi_ring *)(to + ABI_PAGE) + ring;
	u8 *data = to + geometry_ring_at(&geometry, ring);
	u64 mask = geometry_ring_size(&geometry, ring) - 1,
	    sub = geometry_sub_size(&geometry, ring);
	u32 pid = 7;

	for (;;) {
		u64 offset = line->offset & ~3ull, in = offset & (sub - 1);
		u64 count = line->count[line->offset & 1], bit = (line->offset & 1) ^ 1;
		struct abi_sub *h = (struct abi_sub *)(data + ((offset - in) & mask));
		bool extended = in && time - line->base >= ABI_COMPACT_LIMIT;
		u32 start = in ? 0 : ABI_SUB_HEADER;
		u32 header = extended ? ABI_RECORD_EXTENDED : ABI_RECORD_HEADER;
		u32 length = header + 4 + size, step = ALIGN_UP(length, 4u);
		u16 head[2] = {(u16)(extended ? ABI_ID_EXTENDED : id), (u16)length};
		u32 low = extended ? id : (u32)time;
		u8 *p = data + ((offset + start) & mask);

		if (in + start + step > sub) {
			h->end = offset;
			line->count[bit] = count;
			line->offset = (offset - in + sub) | bit;
			continue;
		}
		if (!in)
			*h = (struct abi_sub){offset, time, count, line->lost[0], 0, {0}};
		memcpy(p, head, 4);
		memcpy(p + 4, &low, 4);
		if (extended)
			memcpy(p + 8, &time, 8);
		memcpy(p + header, &pid, 4);
		memcpy(p + header + 4, fields, size);
		if (in + start + step == sub)
			h->end = offset + start + step;
		line->count[bit] = count + 1;
		line->offset = (offset + start + step) | bit;
		if (!in || extended)
			line->base = time;
		return;
	}
}

static void prepare(void)
{
	u64 time = NSEC_PER_SEC;

	class_number = make_class("number", TRACER_TYPE_U64);
	class_text = make_class("text", TRACER_TYPE_STR);
	classes[0] = (TraceClass){1, class_number};
	classes[1] = (TraceClass){2, class_text};
	map_size = geometry_size(&geometry);
	template_map = calloc(1, map_size);
	map = malloc(map_size);
	require(template_map && map, "memory");
	for (u64 i = 0; i < 5000; i++) {
		static const char text[] = "twenty bytes of text";
		u32 cut = (u32)(i % 20);

		time += i % 97 == 0 ? 5 * NSEC_PER_SEC : 1000;
		append(template_map, 0, 1, time, &i, 8);
		if (i % 40 == 0)
			append(template_map, 1, 2, time, text + cut, (u32)sizeof(text) - cut);
		if (i % 3 == 0)
			append(template_map, 2, 2, time, text + cut, (u32)sizeof(text) - cut);
		if (i % 500 == 0)
			((struct abi_ring *)(template_map + ABI_PAGE))->lost[0] += 3;
	}
}

static void edit(const u8 *e)
{
	u32 ring = e[0] % RINGS;
	bool line = e[0] & 0x80;
	u8 *base =
	    line ? map + ABI_PAGE + ring * ABI_LINE : map + geometry_ring_at(&geometry, ring);
	u32 limit = line ? ABI_LINE : (u32)geometry_ring_size(&geometry, ring);
	u16 place;
	u32 value, at;

	memcpy(&place, e + 2, 2);
	memcpy(&value, e + 4, 4);
	at = line ? place % limit : place * 4u % limit;
	switch (e[1] % 6) {
	case 0:
		base[at] = (u8)value;
		break;
	case 1:
		memcpy(base + MIN(at, limit - 2), &value, 2);
		break;
	case 2:
		memcpy(base + MIN(at, limit - 4), &value, 4);
		break;
	case 3:
		base[(at + value / 8) % limit] ^= (u8)(1 << value % 8);
		break;
	case 4:
		memset(base + at, (u8)value, MIN((value >> 8) % 512, limit - at));
		break;
	default: /* a piece of another place: records of another time, headers of another sub-buffer
		  */
		memmove(base + at, base + (value & 0xFFFC) % limit,
			MIN(MIN(value >> 16, limit - at), limit - (value & 0xFFFC) % limit));
	}
}

static u64 check_piece(const Piece *piece, const ClassTable *table)
{
	u64 clock = piece->begin, before = piece->begin, n = 0, room = ALIGN_UP(piece->size, 4u);
	u32 at = 0, end = 0;

	require(piece->size > 0 && piece->n_records > 0, "an empty piece");
	while (at < piece->size) {
		struct record r;
		u32 step = record_parse(piece->records + at, room - at, &clock, &r);

		require(step > 0, "no record");
		require(class_table_check(table, r.id, r.body, r.body_size),
			"a body unlike its class");
		require(r.time >= before && r.time <= piece->end, "time");
		before = r.time;
		end = at + r.length;
		at += step;
		n++;
	}
	require(end == piece->size && n == piece->n_records, "the end of a piece");
	return n;
}

static void check_sieve(const Sieve *s, const CaptureRing *ring, const ClassTable *table, u64 cut)
{
	u64 before = 0, discarded = s->discarded_base, kept = 0;

	require(s->written == s->kept + s->overwritten + s->trimmed + s->corrupt + s->after_cut,
		"sums");
	for (size_t i = 0; i < s->n; i++) {
		const Piece *p = &s->pieces[i];

		require(p->records >= ring->copy &&
			    p->records + p->size <= ring->copy + (ring->offset - ring->first),
			"a piece outside the copy");
		require(p->begin >= before && p->begin <= p->end && p->end <= cut,
			"times of pieces");
		require(p->discarded >= discarded, "discarded falls");
		before = p->end;
		discarded = p->discarded;
		kept += check_piece(p, table);
	}
	require(kept == s->kept, "kept");
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	const struct record_clock clock = {ABI_CLOCK_COUNTER, 1ull << 32};
	_cleanup_(class_table_freep) ClassTable *table = NULL, *judge = NULL;
	struct geometry g = geometry;
	CaptureSource source = {NULL, &g};
	CaptureLimit limit = {0};
	Capture c;
	u8 flags = size ? data[0] : 0;

	if (!map)
		prepare();
	memcpy(map, template_map, map_size);
	for (size_t i = 1; i + 8 <= size; i += 8)
		edit(data + i);
	source.map = map;
	g.policy = flags & 1 ? ABI_POLICY_DISCARD : ABI_POLICY_OVERWRITE;
	if (flags & 2)
		limit.ring_bytes = 6000;
	require(class_table_new(&table, classes, 2, g.contexts) == 0, "memory");
	require(class_table_new(&judge, classes, 2, g.contexts) == 0, "memory");
	require(capture_take(&c, &source, 1, &clock, &limit) == 0, "capture");
	for (size_t i = 0; i < c.n_rings; i++) {
		SieveLimit until = {.cut = flags & 8 ? 100 * NSEC_PER_SEC : c.cut,
				    .keep_since = flags & 4 ? 90 * NSEC_PER_SEC : 0};
		Sieve s;

		require(sieve_ring(&s, &c.rings[i], table, &until) == 0, "sieve");
		check_sieve(&s, &c.rings[i], judge, until.cut);
		if (s.n > 0) {
			sieve_trim(&s, s.n / 2, flags & 16 ? 700 : UINT64_MAX);
			check_sieve(&s, &c.rings[i], judge, until.cut);
		}
		sieve_clear(&s);
	}
	capture_clear(&c);
	return 0;
}

#ifndef FUZZ_ENGINE
static void replay_input(u8 *p, size_t n)
{
	replay_try(p, n);
}

int main(int argc, char **argv)
{
	u32 seed = (u32)time(NULL), random_inputs = 0;
	size_t n;
	int option;

	while ((option = getopt(argc, argv, "r:s:")) != -1) {
		if (option == 'r')
			random_inputs = (u32)atoi(optarg);
		else if (option == 's')
			seed = (u32)strtoul(optarg, NULL, 0);
		else
			return 2;
	}
	n = replay_paths(argv + optind, argc - optind, 65536, replay_input);
	if (random_inputs)
		printf("seed %u\n", seed);
	fflush(stdout);
	srand(seed);
	for (u32 i = 0; i < random_inputs; i++) {
		u8 data[1 + 8 * 64];
		size_t size = 1 + 8 * (size_t)(rand() % 64);

		for (size_t k = 0; k < size; k++)
			data[k] = (u8)(rand() >> 8);
		for (size_t k = 1; k < size; k += 8) {
			if (rand() % 2) { /* headers and first records of sub-buffers */
				u16 place = (u16)((rand() % 4) * 1024 + rand() % 40);

				memcpy(data + k + 2, &place, 2);
			}
			if (rand() % 4) /* lines are few words, and broken for good */
				data[k] &= 0x7F;
		}
		(void)LLVMFuzzerTestOneInput(data, size);
	}
	printf("%zu files and %u random inputs\n", n, random_inputs);
	return 0;
}
#endif
