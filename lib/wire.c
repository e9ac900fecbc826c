/* SPDX-License-Identifier: MIT */
#include "lib/wire.h"

#include <string.h>

/* The fixed part of each message, and whether something of variable length may follow it. */
static const struct {
	u16 size;
	bool variable;
} forms[] = {
    [WIRE_HELLO] = {sizeof(struct wire_hello), false},
    [WIRE_CLASSES] = {sizeof(struct wire_classes), true},
    [WIRE_END] = {sizeof(struct wire_end), false},
    [WIRE_SNAPSHOT] = {sizeof(struct wire_snapshot), true},
    [WIRE_SESSION] = {sizeof(struct wire_session), true},
    [WIRE_DONE] = {sizeof(struct wire_done), false},
    [WIRE_ACCEPTED] = {sizeof(struct wire_accepted), false},
    [WIRE_REFUSED] = {sizeof(struct wire_refused), true},
    [WIRE_PROGRAM] = {sizeof(struct wire_program), true},
    [WIRE_CRASH] = {sizeof(struct wire_crash), false},
    [WIRE_EVENT] = {sizeof(struct wire_event), false},
    [WIRE_TRIGGERS] = {sizeof(struct wire_triggers), true},
};

/* Of a SESSION with n classes: the short form, and the one with wire_session_more. */
static bool session_length(size_t length, u32 n)
{
	size_t least = sizeof(struct wire_session) + n * sizeof(u16);

	return length == least || length == least + sizeof(struct wire_session_more) + n * sizeof(u16);
}

int wire_check(const void *message, size_t n)
{
	struct wire_header h;

	if (n < sizeof(h) || n > WIRE_MAX)
		return -EBADMSG;
	memcpy(&h, message, sizeof(h));
	if (h.magic != WIRE_MAGIC || h.length != n || h.reserved || h.reserved2)
		return -EBADMSG;
	if (h.type < WIRE_HELLO || h.type >= WIRE_TYPES)
		return -EBADMSG;
	if (n < forms[h.type].size || (n > forms[h.type].size && !forms[h.type].variable))
		return -EBADMSG;

	/* where the fixed part says how much follows, exactly that must be there */
	if (h.type == WIRE_SNAPSHOT) {
		struct wire_snapshot m;

		memcpy(&m, message, sizeof(m));
		if (m.reason_length > WIRE_MAX_REASON || m.reason_length != n - sizeof(m))
			return -EBADMSG;
	} else if (h.type == WIRE_SESSION) {
		struct wire_session m;

		memcpy(&m, message, sizeof(m));
		if (m.n_classes > WIRE_MAX_CLASSES || !session_length(n, m.n_classes))
			return -EBADMSG;
	} else if (h.type == WIRE_TRIGGERS) {
		struct wire_triggers m;

		memcpy(&m, message, sizeof(m));
		if (m.n_classes > WIRE_MAX_CLASSES || (m.n_classes + 7) / 8 != n - sizeof(m))
			return -EBADMSG;
	} else if (h.type == WIRE_REFUSED) {
		struct wire_refused m;

		memcpy(&m, message, sizeof(m));
		if (m.text_length != n - sizeof(m))
			return -EBADMSG;
	} else if (h.type == WIRE_PROGRAM) {
		struct wire_program m;

		memcpy(&m, message, sizeof(m));
		if (m.exe_length > WIRE_MAX_EXE || m.build_id_length > WIRE_MAX_BUILD_ID ||
		    (size_t)m.exe_length + m.build_id_length != n - sizeof(m))
			return -EBADMSG;
	} else if (h.type == WIRE_HELLO) {
		struct wire_hello m;

		memcpy(&m, message, sizeof(m));
		if (m.n_classes > WIRE_MAX_CLASSES)
			return -EBADMSG;
	} else if (h.type == WIRE_CLASSES) {
		struct wire_classes m;

		/* the least class: bytes, level, fields, and two names of one letter */
		memcpy(&m, message, sizeof(m));
		if (m.n > WIRE_MAX_CLASSES || m.first > WIRE_MAX_CLASSES - m.n ||
		    m.n * 8ull > n - sizeof(m))
			return -EBADMSG;
	}
	return h.type;
}

int wire_session_geometry(const struct wire_session *m, struct geometry *ret, u32 *ret_pinned)
{
	struct wire_session_more more = {0};
	struct geometry g = {
	    .ring_shift = m->ring_shift,
	    .sub_shift = m->sub_shift,
	    .side_shift = m->side_shift,
	    .side_sub_shift = m->side_sub_shift,
	    .n_ring = m->n_ring,
	    .n_side = m->n_side,
	    .policy = m->policy,
	    .contexts = m->contexts,
	};

	if (m->header.type != WIRE_SESSION || m->slot >= ABI_MAX_SLOTS || !m->generation ||
	    m->n_classes > WIRE_MAX_CLASSES || !session_length(m->header.length, m->n_classes))
		return -EBADMSG;
	if (wire_session_has_more(m))
		memcpy(&more, wire_session_ids(m) + m->n_classes, sizeof(more));
	g.pinned_shift = more.pinned_shift;
	g.pinned_sub_shift = more.pinned_sub_shift;
	g.n_pinned = more.n_pinned;
	if (geometry_check(&g) < 0 || m->size != geometry_size(&g))
		return -EBADMSG;
	if (more.pinned && (!geometry_is_pinned(&g, more.pinned) || more.pinned >= geometry_rings(&g)))
		return -EBADMSG;
	for (u32 i = 0; i < m->n_classes; i++)
		if (wire_session_ids(m)[i] > ABI_ID_MAX)
			return -EBADMSG; /* would announce an extended header */
	*ret = g;
	if (ret_pinned)
		*ret_pinned = more.pinned;
	return 0;
}
