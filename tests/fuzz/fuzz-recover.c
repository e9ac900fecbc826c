/* SPDX-License-Identifier: MIT */
/* Rings found on a disk whose bytes are the input's: an honest image and its glossary, edited. Put together as a recovery does, then
 * judged: every packet that would be written is read as strictly as CTF allows, and the sums must add up. Checksums would stop
 * nearly all edits at the door, so the input may have them put right again: then it is the door behind that is tried.
 *
 * The first byte: bit 0, checksums are put right; bit 1, the file of rings is cut off at the first edit's place. Then edits of
 * eight bytes: u8 where (bit 7: the glossary, else the rings; low bits: which block, 255: anywhere), u8 how (store 1, 2, 4, 8
 * bytes, xor a bit, fill, copy), u16 place (in the block, or in units of 64 bytes), u32 value.
 *
 * Built as a libFuzzer target where the compiler has it; elsewhere main() replays files and directories and goes on with
 * random edits: fuzz-recover [-r RANDOM INPUTS] [-s SEED] [PATH...]. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#include "daemon/backing/format.h"
#include "daemon/backing/image.h"
#include "daemon/backing/relic.h"
#include "daemon/removal.h"
#include "daemon/sieve.h"
#include "lib/region.h"
#include "tests/fuzz/replay.h"

#define N_RING 2
#define RINGS  (N_RING + 1)
#define GLOSSARY "fuzz.0" BACKING_GLOSSARY
#define IMAGE  "fuzz.0" BACKING_RINGS

static const struct geometry geometry = { 16, 12, 16, 12, N_RING, 1, ABI_POLICY_OVERWRITE, ABI_CONTEXT_VPID };
static struct event_class *class_number, *class_text;
static Cpus cpus;
static char directory[] = "/dev/shm/fuzz-recover-XXXXXX";
static int dir_fd = -1;
static u8 *template_image, *image, *template_glossary, *glossary;
static size_t image_size, glossary_size_;

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	(void)fprintf(stderr, "fuzz-recover: %s\n", what);
	abort();
}

/* ---- the honest one ---- */

static struct event_class *make_class(const char *name, u8 type)
{
	struct event_class *c = calloc(1, sizeof(*c) + sizeof(c->fields[0]));

	require(c, "memory");
	c->provider = (char *)"fuzz";
	c->name = (char *)name;
	c->n_fields = 1;
	c->fields[0] = (struct class_field){ (char *)"field", type, TRACER_SHAPE_ONE, 0 };
	return c;
}

/* Appends by the writer's rules (abi.h 5), with times of its own. */
static void append(u8 *to, u32 ring, u32 id, u64 time, const void *fields, u32 size)
{
	struct abi_ring *line = (struct abi_ring *)(to + ABI_PAGE) + ring;
	u8 *data = to + geometry_ring_at(&geometry, ring);
	u64 mask = geometry_ring_size(&geometry, ring) - 1, sub = geometry_sub_size(&geometry, ring);
	u32 pid = 7;

	for (;;) {
		u64 offset = line->offset & ~3ull, in = offset & (sub - 1);
		u64 count = line->count[line->offset & 1], bit = (line->offset & 1) ^ 1;
		struct abi_sub *h = (struct abi_sub *)(data + ((offset - in) & mask));
		u32 start = in ? 0 : ABI_SUB_HEADER, length = ABI_RECORD_HEADER + 4 + size, step = ALIGN_UP(length, 4u);
		u16 head[2] = { (u16)id, (u16)length };
		u32 low = (u32)time;
		u8 *p = data + ((offset + start) & mask);

		if (in + start + step > sub) {
			h->end = offset;
			line->count[bit] = count;
			line->offset = (offset - in + sub) | bit;
			continue;
		}
		if (!in)
			*h = (struct abi_sub){ offset, time, count, line->lost[0], 0, { 0 } };
		memcpy(p, head, 4);
		memcpy(p + 4, &low, 4);
		memcpy(p + ABI_RECORD_HEADER, &pid, 4);
		memcpy(p + ABI_RECORD_HEADER + 4, fields, size);
		if (in + start + step == sub)
			h->end = offset + start + step;
		line->count[bit] = count + 1;
		line->offset = (offset + start + step) | bit;
		return;
	}
}

static u8 *load(const char *name, size_t *ret_size)
{
	_cleanup_close_ int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	off_t size = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
	u8 *p = size < 0 ? NULL : malloc((size_t)size + 8);

	require(p && pread(fd, p, (size_t)size, 0) == size, name);
	*ret_size = (size_t)size;
	return p;
}

static void store(const char *name, const u8 *p, size_t n)
{
	_cleanup_close_ int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	require(fd >= 0 && pwrite(fd, p, n, 0) == (ssize_t)n, name);
}

static void leave(void)
{
	(void)removal_run(AT_FDCWD, directory, NULL);
}

static void prepare(void)
{
	static const char text[] = "twenty bytes of text";
	struct region region;
	ImageCounters counters = {};
	const u32 rings[] = { 0, 1 };
	u64 time = NSEC_PER_SEC;
	bool made;
	Image *m;

	require(mkdtemp(directory), directory);
	(void)atexit(leave);
	dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	class_number = make_class("number", TRACER_TYPE_U64);
	class_text = make_class("text", TRACER_TYPE_STR);
	cpus.n_rings = cpus.n_possible = N_RING;
	cpus.cpu_of[1] = 1;
	require(region_create(&region, "fuzz", &geometry, 0, 1, rings, N_RING) == 0, "region");
	require(image_new(&m, &(ImageOptions){ "fuzz", 0, region.map, geometry, { ABI_CLOCK_MONOTONIC, 0 }, &cpus }) == 0, "image");
	require(glossary_add(image_glossary(m), 1, class_number) == 0 && glossary_add(image_glossary(m), 2, class_text) == 0, "glossary");
	for (u64 i = 0; i < 6000; i++) {
		u32 cut = (u32)(i % 20);

		time += 1000;
		append(region.map, 0, 1, time, &i, 8);
		if (i % 40 == 0)
			append(region.map, 1, 2, time, text + cut, (u32)sizeof(text) - cut);
		if (i % 3 == 0)
			append(region.map, 2, 2, time, text + cut, (u32)sizeof(text) - cut);
		if (i % 500 == 0)
			((struct abi_ring *)(region.map + ABI_PAGE))->lost[0] += 3;
		if (i % 1100 == 1000)
			require(image_pass(m, dir_fd, 0, &made, &counters) == 0, "pass");
	}
	(void)image_free(m);
	region_close(&region);
	template_image = load(IMAGE, &image_size);
	template_glossary = load(GLOSSARY, &glossary_size_);
	image = malloc(image_size);
	glossary = malloc(glossary_size_ + 8);
	require(image && glossary, "memory");
}

/* ---- edits ---- */

static void edit(const u8 *e)
{
	u8 *base = e[0] & 0x80 ? glossary : image;
	size_t limit = e[0] & 0x80 ? glossary_size_ : image_size, at;
	u32 block = e[0] & 0x7F, value;
	u16 place;

	memcpy(&place, e + 2, 2);
	memcpy(&value, e + 4, 4);
	at = (block == 0x7F ? place * 64u : block * BACKING_BLOCK + place % BACKING_BLOCK) % limit;
	switch (e[1] % 7) {
	case 0:
		base[at] = (u8)value;
		break;
	case 1:
		memcpy(base + MIN(at, limit - 2), &value, 2);
		break;
	case 2:
		memcpy(base + MIN(at, limit - 4), &value, 4);
		break;
	case 3: {
		u64 wide = (u64)value << (e[1] / 7 % 33);

		memcpy(base + MIN(at, limit - 8), &wide, 8);
		break;
	}
	case 4:
		base[(at + value / 8) % limit] ^= (u8)(1 << value % 8);
		break;
	case 5:
		memset(base + at, (u8)value, MIN((size_t)(value >> 8) % 5000, limit - at));
		break;
	default: { /* a block in place of another: an older version, another ring's, a table twice */
		size_t from = (value & 0xFFFF) * 64u % limit;

		memmove(base + at, base + from, MIN(MIN((size_t)(value >> 16), limit - at), limit - from));
	}
	}
}

static void sum(u8 *p, u64 size, size_t word)
{
	u64 sum;

	memset(p + word, 0, 8);
	sum = backing_checksum(0, p, size);
	memcpy(p + word, &sum, 8);
}

/* Everything that looks like something of ours gets a checksum that says so. */
static void put_right(void)
{
	for (size_t at = 0; at + BACKING_BLOCK <= image_size; at += BACKING_BLOCK) {
		u8 *p = image + at, *room = p + offsetof(struct abi_sub, room);
		struct backing_slot h;
		u64 magic;

		memcpy(&magic, p, 8);
		memcpy(&h, room, sizeof(h));
		if (magic == BACKING_MAGIC_IMAGE)
			sum(p, BACKING_BLOCK, offsetof(struct backing_image, checksum));
		else if (magic == BACKING_MAGIC_TABLE)
			sum(p, sizeof(struct backing_table) + RINGS * sizeof(struct backing_table_ring),
			    offsetof(struct backing_table, checksum));
		else if (h.magic == BACKING_MAGIC_SLOT && h.size >= ABI_SUB_HEADER && h.size <= BACKING_BLOCK)
			sum(p, h.size, offsetof(struct abi_sub, room) + offsetof(struct backing_slot, checksum));
	}
	for (size_t at = 0; at + sizeof(struct backing_entry) <= glossary_size_; at += 8) {
		struct backing_entry e;
		size_t padded;

		memcpy(&e, glossary + at, sizeof(e));
		padded = ALIGN_UP((size_t)e.size, (size_t)8);
		if (e.magic == BACKING_MAGIC_ENTRY && e.size <= BACKING_ENTRY_MAX && padded <= glossary_size_ - at - sizeof(e))
			sum(glossary + at, sizeof(e) + padded, offsetof(struct backing_entry, checksum));
	}
}

/* ---- judging ---- */

static u64 check_piece(const Piece *piece, const ClassTable *table)
{
	u64 clock = piece->begin, before = piece->begin, n = 0, room = ALIGN_UP(piece->size, 4u);
	u32 at = 0, end = 0;

	require(piece->size > 0 && piece->n_records > 0, "an empty piece");
	while (at < piece->size) {
		struct record r;
		u32 step = record_parse(piece->records + at, room - at, &clock, &r);

		require(step > 0, "no record");
		require(class_table_check(table, r.id, r.body, r.body_size), "a body unlike its class");
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

	require(s->written == s->kept + s->overwritten + s->trimmed + s->corrupt + s->after_cut, "sums");
	for (size_t i = 0; i < s->n; i++) {
		const Piece *p = &s->pieces[i];

		require(p->records >= ring->copy && p->records + p->size <= ring->copy + (ring->offset - ring->first),
			"a piece outside the copy");
		require(p->begin >= before && p->begin <= p->end && p->end <= cut, "times of pieces");
		require(p->discarded >= discarded, "discarded falls");
		before = p->end;
		discarded = p->discarded;
		kept += check_piece(p, table);
	}
	require(kept == s->kept, "kept");
}

static void check(Relic *r)
{
	_cleanup_(class_table_freep) ClassTable *table = NULL, *judge = NULL;
	u64 seen[ABI_MAX_CPUS / 64] = {};

	require(class_table_new(&table, r->classes.v, r->classes.n, r->geometry.contexts) == 0, "memory");
	require(class_table_new(&judge, r->classes.v, r->classes.n, r->geometry.contexts) == 0, "memory");
	for (u32 i = 0; i < r->n_rings; i++) {
		CaptureRing *ring = &r->rings[i];
		SieveLimit until = { .cut = r->cut };
		Sieve s;

		require(ring->offset == 0 || ring->broken || (ring->copy && ring->first < ring->offset &&
							      ring->offset - ring->first <= ring->allocated),
			"a ring");
		require(sieve_ring(&s, ring, table, &until) == 0, "sieve");
		check_sieve(&s, ring, judge, until.cut);
		/* streams are files, named by CPU */
		if (s.n && i < r->geometry.n_ring) {
			u32 cpu = r->cpu_of_ring[i];

			require(cpu < ABI_MAX_CPUS && !(seen[cpu / 64] >> cpu % 64 & 1), "two streams of one CPU");
			seen[cpu / 64] |= 1ull << cpu % 64;
		}
		sieve_clear(&s);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	u8 flags = size ? data[0] : 0;
	size_t cut;
	Notes notes = {};
	Relic r;
	int k;

	if (!image)
		prepare();
	cut = image_size;
	memcpy(image, template_image, image_size);
	memcpy(glossary, template_glossary, glossary_size_);
	for (size_t i = 1; i + 8 <= size; i += 8)
		edit(data + i);
	if (flags & 1)
		put_right();
	if (flags & 2 && size >= 9)
		cut = ((size_t)data[3] * 256 + data[4]) * 64 % image_size;
	store(IMAGE, image, cut);
	store(GLOSSARY, glossary, glossary_size_);
	k = relic_read(&r, dir_fd, IMAGE, &notes);
	require(k == 0 || k == -EBADMSG, "relic_read");
	require(k == 0 || notes.n + notes.n_more > 0, "unread, and nothing said");
	if (k == 0) {
		if (size <= 1)
			require(notes.n == 0 && r.synced > 0 && r.n_sub_buffers > 16, "an honest image is not read");
		check(&r);
		relic_clear(&r);
	}
	notes_clear(&notes);
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
		(void)printf("seed %u\n", seed);
	(void)fflush(stdout);
	srand(seed);
	for (u32 i = 0; i < random_inputs; i++) {
		u8 data[1 + 8 * 32];
		size_t size = 1 + 8 * (size_t)(rand() % 32);

		for (size_t k = 0; k < size; k++)
			data[k] = (u8)(rand() >> 8);
		data[0] = (u8)(rand() % 8 == 0 ? rand() : 1);
		for (size_t k = 1; k < size; k += 8) {
			/* headers, and of numbers small ones */
			if (rand() % 4) {
				u16 place = (u16)(rand() % 40 * 4);

				memcpy(data + k + 2, &place, 2);
			}
			if (rand() % 3)
				memset(data + k + 6, 0, 2);
			if (rand() % 4)
				data[k] &= 0x7F;
			if (rand() % 16 && data[k] < 3)
				data[k] = (u8)(3 + rand() % 90); /* the first block and the tables are soon broken for good */
		}
		(void)LLVMFuzzerTestOneInput(data, size);
	}
	(void)printf("%zu files and %u random inputs\n", n, random_inputs);
	return 0;
}
#endif
