/* SPDX-License-Identifier: MIT */
/* What is said of a session. */
#include "daemon/session-private.h"

#include "daemon/backing/backing.h"

void session_info(Session *s, SessionInfo *ret)
{
	OwnerCounters c = s->past;

	/* first: it may find out that there is more that is corrupt */
	for (Owner *o = s->owners; o; o = o->next)
		session_count(s, o, &c);
	*ret = (SessionInfo){
		.name = s->config->name,
		.state = s->running ? "running" : s->writing ? "stopping" : "stopped",
		.config = s->config,
		.output = session_is_continuous(s) ? s->output : s->snapshots,
		.snapshots = s->snapshots,
		.last_trace = s->last_trace ? s->last_trace : "",
		.unwritten = s->unwritten,
		.trouble = "",
		.last_snapshot = s->last_snapshot ? s->last_snapshot : "",
		.n_producers = session_n_producers(s),
		.n_owners = s->n_owners,
		.written = s->written,
		.backing = s->config->backing ? s->config->backing : "",
		.clamped = s->clamped,
		.corrupt = s->corrupt,
	};
	for (const Owner *o = s->owners; o; o = o->next)
		ret->memory += o->charged;
	for (u32 i = 0; i < CAUSE_KINDS; i++)
		ret->suppressed += ret->suppressed_by[i] = s->triggers.of[i].total;
	ret->recorded = c.recorded;
	ret->overwritten = c.overwritten;
	ret->discarded = c.discarded;
	memcpy(ret->lost, c.lost, sizeof(ret->lost));
	ret->fill = c.fill;
	ret->pinned = c.pinned;
	ret->unpinned = c.unpinned;
	ret->clamped += c.clamped;
	ret->corrupt += c.corrupt_subs;
	ret->unreadable = c.corrupt;
	if (s->writing) {
		ConsumerInfo w;

		writing_info(s->writing, &w);
		ret->trouble = w.trouble;
		ret->unwritten += w.unwritten - s->unwritten_before;
		memcpy(ret->strategy, w.strategy, sizeof(ret->strategy));
	}
	ret->written += c.written > ret->unwritten ? c.written - ret->unwritten : 0;
	if (s->backing) {
		BackingInfo b;

		backing_info(s->backing, &b);
		ret->trouble = b.trouble;
		ret->synced_usec = b.synced / NSEC_PER_USEC;
		ret->backing_written = b.written;
		ret->backing_missed = b.missed;
	}
	if (s->unbacked && s->running)
		ret->trouble = "backing: not all of its rings are kept on disk, for want of memory or descriptors; it is "
			       "tried again";
}
