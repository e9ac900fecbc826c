/* SPDX-License-Identifier: MIT */
#include "daemon/line.h"
#include "daemon/restore-private.h"

static int read_units(Reading *g, const char *line)
{
	char *failed = line_get_text(line, "failed");

	if (!failed)
		return -EBADMSG;
	free(g->r->units_failed);
	g->r->units_failed = failed;
	return 0;
}

static int read_machine(Reading *g, const char *line)
{
	Restored *r = g->r;
	_cleanup_free_ u8 *of = NULL, *uuid = NULL;
	size_t n_of = 0, n_uuid = 0;

	of = line_get_bytes(line, "of", &n_of);
	uuid = line_get_bytes(line, "clock_uuid", &n_uuid);
	if (!of || !uuid || n_of % sizeof(u32) || n_of / sizeof(u32) > ABI_MAX_CPUS || n_uuid != sizeof(r->clock_uuid))
		return -EBADMSG;
	memcpy(r->clock_uuid, uuid, n_uuid);
	free(r->cpu_of);
	r->cpu_of = (u32 *)(void *)steal_ptr(of);
	r->n_cpus = (u32)(n_of / sizeof(u32));
	return 0;
}

static const ReadingWord machine_words[] = {
	{ "machine", read_machine },
	{ "units", read_units },
	{ 0 },
};

static const ReadingWord *word_find(const char *line)
{
	static const ReadingWord *const known[] = { machine_words, restore_session_words, restore_owner_words,
						    restore_program_words };

	for (size_t i = 0; i < ELEMENTSOF(known); i++)
		for (const ReadingWord *w = known[i]; w->word; w++)
			if (line_is(line, w->word))
				return w;
	return NULL;
}

static int read_line(void *userdata, const char *line)
{
	const ReadingWord *w = word_find(line);
	Reading *g = userdata;
	int error;

	if (!w)
		return 0; /* a newer daemon's */
	error = w->read(g, line);
	if (error != -EBADMSG)
		return error;
	g->r->n_damaged++;
	g->r->n_damaged_bytes += strlen(line);
	return 0;
}

/* Buckets become lists: in the order of their numbers, nearly. */
#define COLLECT(list, buckets)                                \
	for (u32 i = READING_BUCKETS; i-- > 0;)               \
		for (void *v; (v = (buckets)[i]);) {          \
			(buckets)[i] = (buckets)[i]->next;    \
			(*(__typeof__(list))v).next = (list); \
			(list) = v;                           \
		}

int restored_read(Restored *ret, Ledger *l)
{
	_cleanup_free_ Reading *g = calloc(1, sizeof(*g));
	LedgerDamage damage;
	int r;

	*ret = (Restored){ 0 };
	if (!g)
		return -ENOMEM;
	g->r = ret;
	r = ledger_read(l, read_line, g, &damage);
	ret->n_damaged += damage.n_lines;
	ret->n_damaged_bytes += damage.n_bytes;
	COLLECT(ret->classes, g->classes);
	COLLECT(ret->owners, g->owners);
	COLLECT(ret->programs, g->programs);
	if (r < 0)
		restored_clear(ret);
	return r;
}

void restored_clear(Restored *r)
{
	restored_sessions_free(r->sessions);
	restored_owners_free(r->owners);
	restored_classes_free(r->classes);
	restored_programs_free(r->programs);
	restored_due_free(r->due);
	free(r->cpu_of);
	free(r->units_failed);
	*r = (Restored){ 0 };
}
