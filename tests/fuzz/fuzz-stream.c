/* SPDX-License-Identifier: MIT */
/* A stream over a ring whose bytes are the input's, and over one that another thread writes nonsense into meanwhile. Pages around
 * the ring cannot be read. Every packet that is private, or whose ring stands still, is read as strictly as CTF allows; sums
 * never fall, and never become more than the positions that were passed can have held.
 *
 * An input: one byte of flags, then steps of eight bytes: u8 what (edits of the ring and its line, honest records, takes,
 * releases, a restart), u8 how, u16 place, u32 value.
 *
 * Built as a libFuzzer target where the compiler has it; elsewhere main() replays files and goes on with random steps, then
 * with a second thread: fuzz-stream [-r RANDOM INPUTS] [-t TAKES BESIDE A THREAD] [-s SEED] [FILE...]. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "daemon/stream.h"
#include "lib/atomic.h"

#define RING 1 /* of three */

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

static struct geometry geometry = { 16, 12, 16, 12, 3, 1, ABI_POLICY_OVERWRITE, ABI_CONTEXT_VPID };
static const struct record_clock clock_source = { ABI_CLOCK_MONOTONIC, 0 };
static ClassTable *table;
static u8 *map, *ring;
static struct abi_ring *line;
static u64 ring_size, sub_size;

typedef struct {
	Stream stream;
	u64 end, discarded;	  /* of the newest packet */
	u64 kept;		  /* of what was released */
	unsigned __int128 budget; /* bytes that records can have been in */
	u64 written, time;	  /* honest records */
} Run;

static void require(bool condition, const char *what)
{
	if (condition)
		return;
	fprintf(stderr, "fuzz-stream: %s\n", what);
	abort();
}

static struct event_class *make_class(u8 type, u8 shape)
{
	struct event_class *c = calloc(1, sizeof(*c) + sizeof(c->fields[0]));

	require(c, "memory");
	c->provider = (char *)"fuzz";
	c->name = (char *)"event";
	c->n_fields = 1;
	c->fields[0] = (struct class_field){ (char *)"field", type, shape, 0 };
	return c;
}

static void prepare(void)
{
	static struct event_class *number, *text; /* as long as the program */
	u64 size = geometry_size(&geometry);

	number = make_class(TRACER_TYPE_U64, TRACER_SHAPE_ONE);
	text = make_class(TRACER_TYPE_STR, TRACER_SHAPE_VAR);
	TraceClass classes[] = { { 1, number }, { 2, text } };
	require(class_table_new(&table, classes, 2, geometry.contexts) == 0, "memory");
	map = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	require(map != MAP_FAILED, "memory");
	ring = map + geometry_ring_at(&geometry, RING);
	ring_size = geometry_ring_size(&geometry, RING);
	sub_size = geometry_sub_size(&geometry, RING);
	line = (struct abi_ring *)(map + ABI_PAGE) + RING;
	require(mprotect(map + ABI_PAGE, ABI_PAGE, PROT_READ | PROT_WRITE) == 0 &&
			mprotect(ring, ring_size, PROT_READ | PROT_WRITE) == 0,
		"mprotect");
}

/* ---- an honest writer, as far as what it finds lets it be one ---- */

static void append(Run *r, u64 step)
{
	u64 word = line->offset, offset = word & ~3ull, in = offset & (sub_size - 1);
	u64 count = line->count[word & 1], bit = ~word & 1, now = record_clock_now(&clock_source);
	struct abi_sub *h = (struct abi_sub *)(ring + ((offset - in) & (ring_size - 1)));
	bool text = r->written % 3 == 0, extended;
	u32 start = in ? 0 : ABI_SUB_HEADER, size = text ? 8 + (u32)(r->written % 20) : 8, header, length, padded;
	u8 *p;

	r->time = MIN(r->time + step, now);
	extended = in && r->time - line->base >= ABI_COMPACT_LIMIT;
	header = extended ? ABI_RECORD_EXTENDED : ABI_RECORD_HEADER;
	length = header + 4 + size;
	padded = ALIGN_UP(length, 4u);
	if (!in && geometry.policy != ABI_POLICY_OVERWRITE && offset + sub_size > ring_size + line->consumed) {
		line->lost[0]++;
		return;
	}
	if (in + start + padded > sub_size) {
		h->end = offset;
		line->count[bit] = count;
		line->offset = (offset - in + sub_size) | bit;
		return;
	}
	if (!in)
		*h = (struct abi_sub){ offset, r->time, count, line->lost[0], 0, { 0 } };
	p = ring + ((offset + start) & (ring_size - 1));
	memset(p, 0, padded);
	memcpy(p, &(u16[]){ extended ? ABI_ID_EXTENDED : 1 + text, (u16)length }, 4);
	memcpy(p + 4, extended ? &(u32){ 1 + text } : &(u32){ (u32)r->time }, 4);
	if (extended)
		memcpy(p + 8, &r->time, 8);
	if (text) { /* a sequence of two strings, the first one empty */
		memcpy(p + header + 4, &(u16){ 2 }, 2);
		memset(p + header + 7, 'x', size - 4);
	} else {
		memcpy(p + header + 4, &r->written, 8);
	}
	if (in + start + padded == sub_size)
		h->end = offset + start + padded;
	line->count[bit] = count + 1;
	line->offset = (offset + start + padded) | bit;
	if (!in || extended)
		line->base = r->time;
	r->written++;
}

/* ---- the consumer ---- */

static void check_records(const StreamPacket *k)
{
	u64 clock = k->begin, before = k->begin;
	u32 at = 0, n = 0, end = 0;

	while (at < k->size) {
		struct record r;
		u32 step = record_parse(k->records + at, ALIGN_UP(k->size, 4u) - at, &clock, &r);

		require(step > 0, "no record");
		require(class_table_check(table, r.id, r.body, r.body_size), "a body unlike its class");
		require(r.time >= before && (n > 0 || r.time == k->begin), "time of a record");
		before = r.time;
		end = at + r.length;
		at += step;
		n++;
	}
	require(before == k->end && end == k->size && n == k->n_records, "the end of a packet");
}

static void check_sums(Run *r, const Stream *before)
{
	const Stream *s = &r->stream;
	const StreamCounters *a = &before->counters, *b = &s->counters;

	require(b->kept >= a->kept && b->overwritten >= a->overwritten && b->corrupt >= a->corrupt &&
			b->corrupt_subs >= a->corrupt_subs && b->clamped >= a->clamped && b->lost >= a->lost,
		"sums fall");
	require(s->clock >= before->clock, "time goes back");
	require(s->overwrite || b->overwritten == 0, "overwritten");
	if (s->done > before->done)
		r->budget += s->done - before->done;
	require((unsigned __int128)b->kept + b->overwritten + b->corrupt <= r->budget / ABI_RECORD_HEADER, "more than there can be");
	require(b->kept == r->kept, "kept");
	require(!(s->done & 3), "position");
}

static void release(Run *r, const StreamPacket *k)
{
	Stream before = r->stream;

	r->end = k->end;
	r->discarded = k->discarded;
	r->kept += k->n_records;
	stream_release(&r->stream);
	/* as from a disk that is slow: of any packet, in any order, now and then */
	if (k->position % 3)
		stream_give(&r->stream, r->kept % 5 ? k->position : before.last);
	require(stream_given(&r->stream) <= r->stream.done, "given before it was taken");
	check_sums(r, &before);
	require(r->stream.done > before.done, "no progress");
}

static int take(Run *r, unsigned flags, bool still, StreamPacket *k)
{
	Stream before = r->stream;
	int n = stream_take(&r->stream, table, flags, k);

	check_sums(r, &before);
	require(n == 1 || n == 0 || (n == -ENOENT && !(flags & STREAM_JUDGE)), "an answer");
	if (n != 1)
		return n;
	require(k->n_records > 0 && k->size >= ABI_RECORD_HEADER && k->size <= sub_size, "a size");
	require(k->begin >= r->end && k->begin <= k->end, "times of packets");
	require(k->end <= record_clock_now(&clock_source) + NSEC_PER_USEC, "a packet of the future");
	require(k->discarded >= r->discarded, "discarded falls");
	if (k->fd >= 0)
		require(!r->stream.overwrite && k->records == map + k->fd_offset && k->records >= ring &&
				k->records + k->size <= ring + ring_size,
			"a packet outside the ring");
	else
		require(k->records >= r->stream.copy && k->records + k->size <= r->stream.copy + sub_size,
			"a packet outside the copy");
	if (still || k->fd < 0)
		check_records(k);
	return 1;
}

/* A ring that stands still is empty after so many packets at the most. */
static void drain(Run *r, unsigned flags)
{
	StreamPacket k;
	u32 n = 0;

	while (take(r, flags | STREAM_JUDGE, true, &k) == 1) {
		release(r, &k);
		require(n++ < ring_size / ABI_RECORD_HEADER, "no end");
	}
	/* one call passes a whole ring of sub-buffers of which nothing can be believed */
	require(!stream_ready(&r->stream, flags & STREAM_PARTIAL), "not empty");
}

static void begin(Run *r)
{
	stream_clear(&r->stream);
	stream_init(&r->stream, map, 7, &geometry, RING, &clock_source);
	r->end = r->discarded = r->kept = 0;
	r->budget = 0;
}

static void edit(u8 *base, u32 limit, u8 how, u32 at, u32 value)
{
	at %= limit;
	switch (how % 6) {
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
	default: /* a piece of another place */
		memmove(base + at, base + (value & 0xFFFC) % limit,
			MIN(MIN(value >> 16, limit - at), limit - (value & 0xFFFC) % limit));
	}
}

/* Positions near where things are, else most lies are the same. */
static void move_offset(u8 how, u32 value)
{
	u64 by = how & 1 ? value % (4 * ring_size) : value % (2 * sub_size);

	line->offset = how & 2 ? line->offset + by : line->offset - by;
	if (how & 4)
		line->offset &= ~(sub_size - 1);
	if (how & 8)
		line->offset &= ~2ull;
}

static void step(Run *r, const u8 *e)
{
	StreamPacket k;
	u16 place;
	u32 value;

	memcpy(&place, e + 2, 2);
	memcpy(&value, e + 4, 4);
	switch (e[0] % 16) {
	case 0:
		edit((u8 *)line, ABI_LINE, e[1], place, value);
		break;
	case 1:
		move_offset(e[1], value);
		break;
	case 2: /* headers, and what is behind them */
		edit(ring, (u32)ring_size, e[1], (place % 16) * (u32)sub_size + (place >> 4) % 200, value);
		break;
	case 3:
	case 4:
		edit(ring, (u32)ring_size, e[1], place * 4u, value);
		break;
	case 5:
		begin(r);
		break;
	case 6:
		drain(r, e[1] & STREAM_PARTIAL);
		break;
	case 7:
		(void)stream_unsaid(&r->stream, &r->discarded);
		require(stream_fill(&r->stream) >= 0 && stream_fill(&r->stream) <= 1, "a part of the ring");
		break;
	case 8:
	case 9:
	case 10:
		for (u32 i = 0; i < value % 600; i++)
			append(r, place % 8 ? place : (u64)place << 20);
		break;
	default:
		if (take(r, e[1] & (STREAM_PARTIAL | STREAM_JUDGE), true, &k) == 1 && e[1] & 4)
			release(r, &k);
	}
}

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	Run r = { .time = NSEC_PER_SEC };
	u8 flags = size ? data[0] : 0;

	if (!map)
		prepare();
	geometry.policy = flags & 1 ? ABI_POLICY_DISCARD : ABI_POLICY_OVERWRITE;
	memset(ring, flags & 2 ? 0xA5 : 0, ring_size);
	memset(line, 0, sizeof(*line));
	for (u32 i = 0; i < flags * 20u; i++)
		append(&r, 1000);
	begin(&r);
	for (size_t i = 1; i + 8 <= size; i += 8)
		step(&r, data + i);
	drain(&r, STREAM_PARTIAL);
	stream_clear(&r.stream);
	return 0;
}

#ifndef FUZZ_ENGINE
static u32 stop; /* relaxed: nothing is read by it but itself */

static u32 next_random(u32 *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* Honest for a while, then not; into memory that is being read. */
static void *scribble(void *userdata)
{
	Run r = { .time = NSEC_PER_SEC };
	u32 state = *(u32 *)userdata;

	while (!load_relaxed_u32(&stop)) {
		u32 n = next_random(&state);

		for (u32 i = 0; i < n % 900; i++)
			append(&r, 1000);
		n = next_random(&state);
		switch (n % 8) {
		case 0:
			edit((u8 *)line, ABI_LINE, (u8)(n >> 4), next_random(&state), next_random(&state));
			break;
		case 1:
			move_offset((u8)(n >> 4), next_random(&state));
			break;
		case 2: /* never settles */
			for (u32 i = 0; i < 100000 && !load_relaxed_u32(&stop); i++)
				store_relaxed_u64(&line->offset, line->offset ^ 1);
			break;
		case 3: /* from the beginning, so that far positions are not all there is */
			line->offset = line->count[0] = 0;
			break;
		default:
			edit(ring, (u32)ring_size, (u8)(n >> 4), next_random(&state), next_random(&state));
		}
	}
	return NULL;
}

static void beside_thread(u32 policy, u32 takes, u32 seed)
{
	Run r = { 0 };
	pthread_t thread;
	u32 state = ~seed;
	u64 packets = 0;

	geometry.policy = policy;
	memset(ring, 0, ring_size);
	memset(line, 0, sizeof(*line));
	begin(&r);
	store_relaxed_u32(&stop, 0);
	require(pthread_create(&thread, NULL, scribble, &seed) == 0, "a thread");
	for (u32 i = 0; i < takes; i++) {
		u32 n = next_random(&state);
		StreamPacket k;

		if (n % 4096 == 0)
			begin(&r);
		if (take(&r, n >> 4 & (STREAM_PARTIAL | STREAM_JUDGE), false, &k) == 1) {
			packets++;
			if (n & 3)
				release(&r, &k);
		} else {
			sched_yield();
		}
	}
	store_relaxed_u32(&stop, 1);
	require(pthread_join(thread, NULL) == 0, "a thread");
	drain(&r, STREAM_PARTIAL);
	printf("policy %u beside a thread: %u takes, %llu packets\n", policy, takes, (unsigned long long)packets);
	stream_clear(&r.stream);
}

static void replay(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	u8 data[65536];
	ssize_t n = fd < 0 ? -1 : read(fd, data, sizeof(data));

	require(n >= 0, path);
	(void)LLVMFuzzerTestOneInput(data, (size_t)n);
}

int main(int argc, char **argv)
{
	u32 seed = (u32)time(NULL), random_inputs = 0, takes = 0, n = 0;
	int option;

	while ((option = getopt(argc, argv, "r:s:t:")) != -1) {
		if (option == 'r')
			random_inputs = (u32)atoi(optarg);
		else if (option == 's')
			seed = (u32)strtoul(optarg, NULL, 0);
		else if (option == 't')
			takes = (u32)atoi(optarg);
		else
			return 2;
	}
	for (int i = optind; i < argc; i++, n++)
		replay(argv[i]);
	printf("seed %u\n", seed);
	fflush(stdout);
	srand(seed);
	for (u32 i = 0; i < random_inputs; i++) {
		u8 data[1 + 8 * 64];
		size_t size = 1 + 8 * (size_t)(rand() % 64);

		for (size_t k = 0; k < size; k++)
			data[k] = (u8)(rand() >> 8);
		(void)LLVMFuzzerTestOneInput(data, size);
	}
	printf("%u files and %u random inputs\n", n, random_inputs);
	if (takes) {
		if (!map)
			prepare();
		beside_thread(ABI_POLICY_OVERWRITE, takes, seed);
		beside_thread(ABI_POLICY_DISCARD, takes, seed);
	}
	return 0;
}
#endif
