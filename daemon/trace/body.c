/* SPDX-License-Identifier: MIT */
#include "daemon/trace/body.h"

struct ClassEntry {
	const struct event_class *class; /* borrowed; NULL: no such id */
	u32 least;                       /* bytes of a body at least, contexts included */
	bool variable;                   /* ... and it may be more */
	bool used;
};

/* False: this class cannot be decoded by anybody. */
static bool entry_fill(ClassEntry *e, const struct event_class *class, u32 contexts_size)
{
	ClassEntry new = {.class = class, .least = contexts_size};

	if (class->n_fields > CLASS_MAX_FIELDS)
		return false;
	for (u32 i = 0; i < class->n_fields; i++) {
		const struct class_field *f = &class->fields[i];
		bool string = f->type == TRACER_TYPE_STR;
		u32 size = class_type_size(f->type);

		if (size == 0 || f->shape > TRACER_SHAPE_VAR)
			return false;
		if (string || f->shape == TRACER_SHAPE_VAR)
			new.variable = true;
		if (f->shape == TRACER_SHAPE_ONE)
			new.least += size;
		else if (f->shape == TRACER_SHAPE_FIXED)
			new.least += size * f->count; /* at most 32 * 8 * 65535: no overflow */
		else
			new.least += 2;
	}
	*e = new;
	return true;
}

int class_table_new(ClassTable **ret, const TraceClass *classes, size_t n, u32 contexts)
{
	_cleanup_(class_table_freep) ClassTable *t = calloc(1, sizeof(*t));
	u32 highest = 0;

	if (!t)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (classes[i].id <= ABI_ID_MAX)
			highest = MAX(highest, classes[i].id);
	t->n = highest + 1;
	t->entries = calloc(t->n, sizeof(*t->entries));
	t->sizes = malloc(t->n * sizeof(*t->sizes));
	if (!t->entries || !t->sizes)
		return -ENOMEM;
	t->contexts_size =
	    (contexts & ABI_CONTEXT_VPID ? 4 : 0) + (contexts & ABI_CONTEXT_VTID ? 4 : 0);
	for (size_t i = 0; i < n; i++)
		if (classes[i].id <= ABI_ID_MAX)
			(void)entry_fill(&t->entries[classes[i].id], classes[i].class,
					 t->contexts_size);
	for (u32 id = 0; id < t->n; id++) {
		const ClassEntry *e = &t->entries[id];

		t->sizes[id] = e->class && !e->variable ? e->least : CLASS_SIZE_VARIES;
	}
	*ret = steal_ptr(t);
	return 0;
}

ClassTable *class_table_free(ClassTable *t)
{
	if (!t)
		return NULL;
	free(t->entries);
	free(t->sizes);
	free(t);
	return NULL;
}

/* Takes one field off the front; NULL if it does not fit. */
static const u8 *field_walk(const struct class_field *f, const u8 *p, const u8 *end)
{
	/* a string has no size before it is read */
	u32 n = 1, size = f->type == TRACER_TYPE_STR ? 0 : class_type_size(f->type);

	if (f->shape == TRACER_SHAPE_FIXED)
		n = f->count;
	else if (f->shape == TRACER_SHAPE_VAR) {
		u16 count;

		if (end - p < (ptrdiff_t)sizeof(count))
			return NULL;
		memcpy(&count, p, sizeof(count));
		p += sizeof(count);
		n = count;
	}
	if (size > 0) {
		u64 bytes = (u64)n * size;

		return (u64)(end - p) < bytes ? NULL : p + bytes;
	}
	for (; n > 0; n--) {
		const u8 *nul = memchr(p, '\0', (size_t)(end - p));

		if (!nul)
			return NULL;
		p = nul + 1;
	}
	return p;
}

bool class_table_known(const ClassTable *t, u32 id)
{
	return id < t->n && t->entries[id].class;
}

bool class_table_check(const ClassTable *t, u32 id, const u8 *body, u32 size)
{
	const ClassEntry *e = id < t->n ? &t->entries[id] : NULL;
	const u8 *end = body + size, *p = body;

	if (!e || !e->class || size < e->least)
		return false;
	if (!e->variable)
		return size == e->least;
	p += t->contexts_size;
	for (u32 i = 0; i < e->class->n_fields && p; i++)
		p = field_walk(&e->class->fields[i], p, end);
	return p == end;
}

void class_table_use(ClassTable *t, u32 id)
{
	t->entries[id].used = true;
}

int class_table_used(const ClassTable *t, TraceClass **ret, size_t *ret_n)
{
	size_t n = 0;
	TraceClass *v;

	for (u32 id = 0; id < t->n; id++)
		n += t->entries[id].used;
	v = calloc(n + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	n = 0;
	for (u32 id = 0; id < t->n; id++)
		if (t->entries[id].used)
			v[n++] = (TraceClass){id, t->entries[id].class};
	*ret = v;
	*ret_n = n;
	return 0;
}
