/* SPDX-License-Identifier: MIT */
/* What a program asks. */
#include "daemon/request.h"

#include <stdio.h>

#include "conf/text.h"

/* Bytes of all CLASSES of one exchange: 8192 classes of ordinary size. */
#define REQUEST_MAX_BYTES (4u << 20)

int request_hello(Request *q, const struct wire_hello *m)
{
	if (m->n_classes > WIRE_MAX_CLASSES)
		return -EBADMSG;
	q->hello = *m;
	if (m->abi_major != ABI_MAJOR)
		return 1;
	if (m->n_classes) {
		q->classes = calloc(m->n_classes, sizeof(*q->classes));
		if (!q->classes)
			return -ENOMEM;
	}
	return 0;
}

/* Goes into logs, traces and over the bus: characters that a person can read, whatever the program sent. */
static void clean_path(char *p)
{
	for (size_t n = strlen(p), i = 0, width; i < n; i += width) {
		width = text_character(p + i, n - i);
		if (width <= 1 ? width == 0 || (u8)p[i] < ' ' || p[i] == 0x7f :
				 width == 2 && (u8)p[i] == 0xc2 && (u8)p[i + 1] < 0xa0) {
			p[i] = '?';
			width = 1;
		}
	}
}

void request_program(Request *q, const struct wire_program *m)
{
	const u8 *p = (const u8 *)(m + 1);

	memcpy(q->exe, p, m->exe_length);
	q->exe[m->exe_length] = 0;
	clean_path(q->exe);
	p += m->exe_length;
	for (u32 i = 0; i < m->build_id_length; i++)
		(void)snprintf(q->build_id + (size_t)i * 2, 3, "%02x", p[i]);
	q->named = true;
}

int request_classes(Request *q, const struct wire_classes *m, size_t size, Classes *known, uid_t uid, Failure *f)
{
	const u8 *p = (const u8 *)(m + 1), *end = (const u8 *)m + size;

	q->bytes += (u32)size;
	if (m->n == 0 || m->first != q->n_classes || m->n > q->hello.n_classes - q->n_classes ||
	    q->bytes > REQUEST_MAX_BYTES)
		return -EBADMSG;
	for (u32 i = 0; i < m->n; i++) {
		struct event_class *class;
		int r = class_decode(&class, p, (size_t)(end - p));

		if (r < 0)
			return r;
		p += r;
		if (classes_intern(known, uid, class, &q->classes[q->n_classes], f) < 0)
			return 1;
		q->n_classes++;
	}
	return p == end ? 0 : -EBADMSG;
}

int request_reason(const struct wire_snapshot *m, size_t size, char ret[WIRE_MAX_REASON + 1])
{
	if (m->reason_length > WIRE_MAX_REASON || sizeof(*m) + m->reason_length != size)
		return -EBADMSG;
	memcpy(ret, m + 1, m->reason_length);
	ret[m->reason_length] = 0;
	/* goes into logs and metadata: one line of visible bytes, UTF-8 or not is the writers' care */
	for (char *c = ret; c < ret + m->reason_length; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
	return 0;
}

void request_clear(Request *q)
{
	for (u32 i = 0; i < q->n_classes; i++)
		(void)class_unref(q->classes[i]);
	free(q->classes);
	*q = (Request){ 0 };
}
