/* SPDX-License-Identifier: MIT */
/* A session's rings for one user, unit or process. */
#include "daemon/owner.h"

#include <stdio.h>

#include "daemon/producer.h"
#include "daemon/session.h"
#include "daemon/state-owner.h"
#include "lib/atomic.h"
#include "lib/reader.h"
#include "lib/side.h"

bool owner_key_equal(const OwnerKey *a, const OwnerKey *b)
{
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case BUFFERS_PER_USER:
		return a->uid == b->uid;
	case BUFFERS_PER_UNIT:
		return strcmp(a->unit, b->unit) == 0;
	case BUFFERS_PER_PROCESS:
		return a->pid == b->pid && a->start_time == b->start_time;
	}
	return false;
}

static u32 owner_n_rings(const Owner *o)
{
	return geometry_rings(&o->region.geometry);
}

/* A per-CPU ring without memory is not looked at: loads would find zeros, but pages would be made. */
static bool ring_allocated(const Owner *o, u32 ring)
{
	return ring < o->ground->cpus->n_rings || geometry_is_side(&o->region.geometry, ring);
}

int owner_new(Owner **ret, Ground *ground, Session *session, const char *session_name,
	      const OwnerKey *key, const char *label, uid_t uid, const struct geometry *g, u32 slot,
	      u32 generation, Failure *f)
{
	_cleanup_(owner_unrefp) Owner *o = calloc(1, sizeof(*o));
	_cleanup_free_ u32 *rings = NULL;
	char name[200], size[32];
	u32 n = ground->cpus->n_rings;
	u64 memory = geometry_memory(g, n);
	int r;

	if (!o)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	*o = (Owner){ .n_refs = 1,
		      .ground = ground,
		      .key = *key,
		      .charged_uid = uid,
		      .region = REGION_NULL,
		      .idle_since = monotonic_ns(),
		      .created = monotonic_ns() };
	o->key.unit = NULL;
	if (key->unit)
		o->key.unit = strdup(key->unit);
	o->label = strdup(label);
	rings = calloc(n, sizeof(*rings));
	if (!o->label || !rings || (key->unit && !o->key.unit))
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	for (u32 i = 0; i < n; i++)
		rings[i] = i;
	r = account_charge(ground->account, uid, CHARGE_MEMORY, memory, f);
	if (r < 0)
		return r;
	o->charged = memory;
	(void)snprintf(name, sizeof(name), "%.60s/%.100s", session_name, label);
	r = region_create(&o->region, name, g, slot, generation, rings, n);
	if (r < 0) {
		format_size(memory, size);
		return failure_set(f, r == -ENOMEM || r == -ENOSPC ? FAILURE_NO_MEMORY : FAILURE_IO,
				   "session '%s': the rings of %s need %s and could not be had: %s",
				   session_name, label, size, strerror(-r));
	}
	o->session = session;
	*ret = steal_ptr(o);
	return 0;
}

int owner_adopt(Owner **ret, Ground *ground, Session *session, const OwnerRemains *what, int fd, Failure *f)
{
	_cleanup_(owner_unrefp) Owner *o = calloc(1, sizeof(*o));
	int r;

	if (!o) {
		(void)close_fd(fd);
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	}
	*o = (Owner){ .n_refs = 1,
		      .ground = ground,
		      .key = what->key,
		      .charged_uid = what->charged_uid,
		      .region = REGION_NULL,
		      .idle_since = monotonic_ns(),
		      .created = what->created,
		      .liar = what->liar };
	r = region_adopt(&o->region, fd, &what->geometry, what->memory);
	o->key.unit = what->key.unit ? strdup(what->key.unit) : NULL;
	o->label = strdup(what->label);
	if (r < 0)
		return failure_set(f, FAILURE_IO, "session '%s': the rings of %s are not what was kept: %s",
				   session->config->name, what->label, strerror(-r));
	if (!o->label || (what->key.unit && !o->key.unit) ||
	    account_adopt(ground->account, what->charged_uid, CHARGE_MEMORY, what->memory) < 0)
		return failure_set(f, FAILURE_NO_MEMORY, "out of memory");
	o->charged = what->memory;
	o->number = what->number;
	o->session = session;
	*ret = steal_ptr(o);
	return 0;
}

Owner *owner_ref(Owner *o)
{
	o->n_refs++;
	return o;
}

/* What the bytes in the rings mean, which nobody will ask any more. */
static void owner_forget(Owner *o)
{
	ids_clear(&o->ids);
	described_clear(&o->described);
}

Owner *owner_unref(Owner *o)
{
	if (!o || --o->n_refs)
		return NULL;
	(void)feed_free(o->feed);
	state_marks_release(o);
	owner_forget(o);
	pinned_clear(&o->pinned);
	/* programs go on recording into it, and the next daemon has it */
	if (o->region.fd >= 0 && !o->ground->leaving)
		region_punch(&o->region);
	region_close(&o->region);
	account_release(o->ground->account, o->charged_uid, CHARGE_MEMORY, o->charged);
	free((char *)o->key.unit);
	free(o->label);
	free(o->holders);
	free(o);
	return NULL;
}

void owner_abandon(Owner *o)
{
	while (o->attachments)
		attachment_end(o->attachments, false);
	o->session = NULL;
	if (o->n_pins == 0)
		owner_forget(o);
	(void)owner_unref(o);
}

void owner_pin(Owner *o)
{
	o->n_pins++;
}

void owner_unpin(Owner *o)
{
	if (--o->n_pins == 0 && !o->session)
		owner_forget(o);
}

/* Who writes continuously says who is there, and who was. Without memory, who was said before. */
static void owner_tell_programs(Owner *o)
{
	Descriptions d;

	if (o->feed && described_copy(&o->described, DESCRIPTIONS_SAID, &d) == 0)
		feed_set_programs(o->feed, &d);
}

int owner_attach(Owner *o, Producer *p, Attachment **ret)
{
	Described *described;
	Attachment *a;

	for (a = p->attachments; a; a = a->next_of_producer) {
		if (a->owner == o) {
			*ret = a;
			return 0;
		}
	}
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	if (described_add(&o->described, p->description, &described) < 0) {
		free(a);
		return -ENOMEM;
	}
	*a = (Attachment){ .producer = p,
			   .owner = o,
			   .described = described,
			   .next_of_owner = o->attachments,
			   .next_of_producer = p->attachments };
	o->attachments = a;
	p->attachments = a;
	owner_tell_programs(o);
	o->n_attachments++;
	o->idle_since = 0;
	*ret = a;
	return 0;
}

void attachment_set_active(Attachment *a, bool active)
{
	if (a->active == active)
		return;
	a->active = active;
	if (active)
		a->owner->n_active++;
	else
		a->owner->n_active--;
}

/* Where the rings stand, as an epoch: behind everything that who is gone may have written. */
static Epoch *owner_epoch(const Owner *o)
{
	Epoch *e;

	if (epoch_new(&e, owner_n_rings(o)) < 0)
		return NULL;
	for (u32 i = 0; i < e->n; i++) {
		struct reader r;
		u64 count;

		if (!ring_allocated(o, i))
			continue;
		reader_init(&r, o->region.map, &o->region.geometry, i);
		if (reader_position(&r, &e->offset[i], &count) < 0)
			e->offset[i] = UINT64_MAX; /* a liar's ring never passes */
	}
	return e;
}

void attachment_end(Attachment *a, bool dead)
{
	_cleanup_(epoch_unrefp) Epoch *epoch = NULL;
	Owner *o = a->owner;
	Attachment **p;

	attachment_set_active(a, false);
	if (dead)
		owner_break_locks(o, a->producer->number);
	pinned_leave(&o->pinned, &o->region.geometry, a->producer->number);
	epoch = owner_epoch(o);
	ids_release(&o->ids, &a->ids, epoch);
	/* also of a session that lets go: then all of them go with it, but for a copy's sake */
	if (a->described->what->ended)
		state_dead(o, a->described->what);
	described_end(&o->described, a->described, epoch, a->pinned);
	if (a->pinned)
		state_owner(o);
	owner_tell_programs(o);
	for (p = &o->attachments; *p != a;)
		p = &(*p)->next_of_owner;
	*p = a->next_of_owner;
	for (p = &a->producer->attachments; *p != a;)
		p = &(*p)->next_of_producer;
	*p = a->next_of_producer;
	if (--o->n_attachments == 0)
		o->idle_since = monotonic_ns();
	free(a);
}

void owner_settle(Owner *o)
{
	_cleanup_(epoch_unrefp) Epoch *epoch = owner_epoch(o);

	ids_settle(&o->ids, epoch);
}

int owner_add_ring(Owner *o, u32 ring)
{
	u64 more = geometry_ring_size(&o->region.geometry, ring);
	int r = account_charge(o->ground->account, o->charged_uid, CHARGE_MEMORY, more, NULL);

	if (r < 0)
		return r;
	r = region_allocate_ring(&o->region, ring);
	if (r < 0) {
		account_release(o->ground->account, o->charged_uid, CHARGE_MEMORY, more);
		return r;
	}
	o->charged += more;
	return 0;
}

void owner_break_locks(Owner *o, u32 producer_number)
{
	const struct geometry *g = &o->region.geometry;
	struct abi_ring *lines = (struct abi_ring *)(o->region.map + ABI_PAGE);

	for (u32 i = g->n_ring; i < geometry_rings(g); i++)
		(void)side_break(&lines[i], producer_number, 0);
}

void owner_prune(Owner *o)
{
	_cleanup_free_ u64 *first = NULL;
	u32 n = owner_n_rings(o);

	if ((o->ids.n_unheld == 0 && o->described.n_dead == 0) || o->n_pins)
		return;
	first = calloc(n, sizeof(*first));
	if (!first)
		return;
	for (u32 i = 0; i < n; i++) {
		struct reader r;
		u64 offset, count;

		if (!ring_allocated(o, i)) {
			first[i] = UINT64_MAX;
			continue;
		}
		if (geometry_is_pinned(&o->region.geometry, i)) {
			first[i] = pinned_first(o->region.map, &o->region.geometry, i);
			continue;
		}
		reader_init(&r, o->region.map, &o->region.geometry, i);
		/* a position that cannot be read proves nothing: 0 keeps every id */
		if (reader_position(&r, &offset, &count) == 0)
			first[i] = reader_first_whole(offset, r.size, r.sub_size);
	}
	ids_prune(&o->ids, first, n);
	described_prune(&o->described, first, &o->region.geometry);
}

/* Records of the ring before `first`, its oldest whole sub-buffer, by that one's header; what a lying header says is bounded
 * by what was ever written. */
static u64 ring_overwritten(const struct reader *r, u64 first, u64 count)
{
	const struct abi_sub *sub = (const void *)(r->data + (first & (r->size - 1)));

	if (first == 0)
		return 0;
	/* relaxed: these are figures for people; a header that is being replaced does not have this position */
	if (load_relaxed_u64(&sub->position) != first)
		return 0;
	return MIN(load_relaxed_u64(&sub->count), count);
}

void counters_add(OwnerCounters *sum, const OwnerCounters *more)
{
	sum->recorded = add_bounded(sum->recorded, more->recorded);
	sum->overwritten = add_bounded(sum->overwritten, more->overwritten);
	sum->discarded = add_bounded(sum->discarded, more->discarded);
	sum->written = add_bounded(sum->written, more->written);
	sum->corrupt = add_bounded(sum->corrupt, more->corrupt);
	sum->corrupt_subs = add_bounded(sum->corrupt_subs, more->corrupt_subs);
	sum->clamped = add_bounded(sum->clamped, more->clamped);
	for (u32 c = 0; c < ABI_LOST_CAUSES; c++)
		sum->lost[c] = add_bounded(sum->lost[c], more->lost[c]);
	sum->pinned = add_bounded(sum->pinned, more->pinned);
	sum->unpinned = add_bounded(sum->unpinned, more->unpinned);
	sum->fill = MAX(sum->fill, more->fill);
}

/* What one ring says; false if it cannot be. `limit`: the most that any of its counters can have come to. */
static bool ring_count(const Owner *o, u32 ring, u64 limit, OwnerCounters *ret)
{
	const struct geometry *g = &o->region.geometry;
	u64 offset, count, first = 0;
	struct reader r;
	double fill;

	reader_init(&r, o->region.map, g, ring);
	for (u32 c = 0; c < ABI_LOST_CAUSES; c++) {
		u64 lost = reader_lost_by(&r, c);

		if (lost > limit)
			return false;
		ret->lost[c] = lost;
		ret->discarded += lost;
	}
	ret->unpinned = load_relaxed_u64(&r.line->unpinned);
	if (reader_position(&r, &offset, &count) < 0 || count > limit || ret->unpinned > limit ||
	    count > offset / ABI_RECORD_HEADER)
		return false;
	ret->recorded = count;
	if (geometry_is_pinned(g, ring)) {
		/* it is meant to be full */
		first = pinned_first(o->region.map, g, ring);
		ret->overwritten = first == offset ? count : ring_overwritten(&r, first, count);
		ret->pinned = count - ret->overwritten;
		return true;
	}
	if (g->policy == ABI_POLICY_OVERWRITE)
		first = reader_first_whole(offset, r.size, r.sub_size);
	else
		offset -= MIN(offset, load_relaxed_u64(&r.line->consumed));
	ret->overwritten = ring_overwritten(&r, first, count);
	fill = offset >= r.size ? 1 : (double)offset / (double)r.size;
	ret->fill = fill;
	return true;
}

/* Of what was overwritten: what nobody had taken, where nobody takes any more. The stream is ours then. */
static u64 untaken(const FeedStream *s, u64 overwritten)
{
	const StreamCounters *taken = &s->stream.counters;
	u64 n = add_bounded(add_bounded(add_bounded(taken->kept, taken->corrupt), taken->overwritten), s->skipped);

	return overwritten > n ? overwritten - n : 0;
}

/* What was overwritten after it was written is no loss, and what is written cannot be overwritten: the feed knows. left: what was
 * overwritten since it was let go of. */
static void feed_count(const Owner *o, u64 left, OwnerCounters *c)
{
	u64 before = c->overwritten;
	StreamCounters sums;
	double fill;

	/* what was gone before there was a feed, it has not counted */
	for (u32 i = 0; i < o->feed->n_streams; i++)
		left = add_bounded(left, o->feed->streams[i].skipped);
	feed_sums(o->feed, &sums, &fill);
	if (o->given)
		c->fill = fill;
	c->written = sums.kept;
	/* a consumer that has it again has not come to what was overwritten meanwhile, for a moment */
	c->overwritten = MAX(before, add_bounded(sums.overwritten, left));
	c->corrupt = sums.corrupt;
	c->corrupt_subs = sums.corrupt_subs;
	c->clamped = sums.clamped;
}

bool owner_count(Owner *o, OwnerCounters *sum)
{
	/* no record takes less than a nanosecond; a second for clocks that disagree */
	u64 limit = monotonic_ns() - o->created + NSEC_PER_SEC;
	OwnerCounters now = {};
	bool was = o->liar;
	u64 left = 0;

	for (u32 i = 0; i < owner_n_rings(o) && !o->liar; i++) {
		OwnerCounters ring = {};

		if (!ring_allocated(o, i))
			continue;
		if (!ring_count(o, i, limit, &ring)) {
			o->liar = true;
			break;
		}
		if (o->feed && !o->given)
			left = add_bounded(left, untaken(&o->feed->streams[i], ring.overwritten));
		counters_add(&now, &ring);
	}
	for (u32 c = 0; c < ABI_LOST_CAUSES; c++)
		o->liar |= now.lost[c] < o->seen.lost[c];
	o->liar |= now.recorded < o->seen.recorded || now.unpinned < o->seen.unpinned;
	if (!o->liar) {
		/* a sub-buffer's header that is just being replaced says nothing for a moment; of what a feed has taken it
		 * says nothing at all */
		now.overwritten = o->feed ? o->seen.overwritten : MAX(now.overwritten, o->seen.overwritten);
		o->seen = now;
	}
	if (o->feed)
		feed_count(o, left, &o->seen);
	counters_add(sum, &o->seen);
	return o->liar && !was;
}
