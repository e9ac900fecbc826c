/* SPDX-License-Identifier: MIT */
#include "daemon/line.h"
#include "daemon/restore-private.h"

static void program_clear(RestoredProgram *p)
{
	free(p->command);
	free(p->exe);
	free(p->build_id);
	free(p->unit);
	free(p->places);
}

void restored_programs_free(RestoredProgram *first)
{
	for (RestoredProgram *next; first; first = next) {
		next = first->next;
		program_clear(first);
		free(first);
	}
}

static RestoredProgram **program_at(Reading *g, u32 number)
{
	RestoredProgram **at = &g->programs[number % READING_BUCKETS];

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	return at;
}

/* Every "active=" and "in=" of the line. */
static int get_places(const char *line, RestoredProgram *p)
{
	for (const char *at = strchr(line, ' '); at; at = strchr(at, ' ')) {
		bool active = strncmp(++at, "active=", 7) == 0;
		RestoredPlace *v;

		if (!active && strncmp(at, "in=", 3) != 0)
			continue;
		v = reallocarray(p->places, p->n_places + 1, sizeof(*v));
		if (!v)
			return -ENOMEM;
		p->places = v;
		v[p->n_places++] = (RestoredPlace){ strtoull(at + (active ? 7 : 3), NULL, 10), active };
	}
	return 0;
}

static int read_program(Reading *g, const char *line)
{
	RestoredProgram v = { 0 }, **at;
	_cleanup_free_ u8 *cookie = NULL;
	size_t n = 0;
	int error;

	cookie = line_get_bytes(line, "cookie", &n);
	if (!cookie || n != sizeof(v.cookie) || !line_get_u32(line, "number", UINT32_MAX, &v.number) || !v.number ||
	    !line_get_u32(line, "pid", INT32_MAX, &v.pid) || !v.pid || !line_get_u32(line, "uid", UINT32_MAX, &v.uid) ||
	    !line_get_number(line, "start_time", &v.start_time))
		return -EBADMSG;
	memcpy(v.cookie, cookie, sizeof(v.cookie));
	(void)line_get_number(line, "missed", &v.missed);
	(void)line_get_number(line, "failed", &v.failed);
	v.command = line_get_text(line, "command");
	v.unit = line_get_text(line, "unit");
	v.exe = line_get_text(line, "exe");
	v.build_id = line_get_text(line, "build_id");
	(void)line_get_u32(line, "vpid", UINT32_MAX, &v.vpid);
	error = get_places(line, &v);
	if (error < 0 || !v.command || !v.unit) {
		program_clear(&v);
		return error < 0 ? error : -EBADMSG;
	}
	g->r->last_program = MAX(g->r->last_program, v.number);
	at = program_at(g, v.number);
	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (!*at) {
			program_clear(&v);
			return -ENOMEM;
		}
	} else {
		v.next = (*at)->next;
		program_clear(*at);
	}
	**at = v;
	return 0;
}

static int read_program_gone(Reading *g, const char *line)
{
	RestoredProgram **at, *p;
	u32 number;

	if (!line_get_u32(line, "number", UINT32_MAX, &number))
		return -EBADMSG;
	g->r->last_program = MAX(g->r->last_program, number);
	at = program_at(g, number);
	p = *at;
	if (!p)
		return 0; /* it was never in a session, and never said */
	*at = p->next;
	program_clear(p);
	free(p);
	return 0;
}

const ReadingWord restore_program_words[] = {
	{ "program", read_program },
	{ "program-gone", read_program_gone },
	{ 0 },
};
