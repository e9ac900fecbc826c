/* SPDX-License-Identifier: MIT */
#include "lib/class.h"

#include "lib/abi.h"

/* What is left of the bytes of one class. */
struct cursor {
	const u8 *p;
	size_t left;
};

static bool name_valid(const char *s, size_t n, bool provider)
{
	if (!n || n > CLASS_MAX_NAME)
		return false;
	for (size_t i = 0; i < n; i++) {
		char c = s[i];

		if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_')
			continue;
		if (i && c >= '0' && c <= '9')
			continue;
		if (i && provider && (c == '.' || c == '-'))
			continue;
		return false;
	}
	return true;
}

/* Takes a name with its NUL. */
static int take_name(struct cursor *c, bool provider, const char **ret, size_t *ret_length)
{
	const u8 *end = memchr(c->p, 0, MIN(c->left, (size_t)CLASS_MAX_NAME + 1));
	size_t n;

	if (!end)
		return -EBADMSG;
	n = (size_t)(end - c->p);
	if (!name_valid((const char *)c->p, n, provider))
		return -EBADMSG;
	*ret = (const char *)c->p;
	*ret_length = n;
	c->p += n + 1;
	c->left -= n + 1;
	return 0;
}

u32 class_type_size(u8 type)
{
	switch (type) {
	case TRACER_TYPE_U8:
	case TRACER_TYPE_I8:
	case TRACER_TYPE_BOOL:
	case TRACER_TYPE_BYTE:
	case TRACER_TYPE_STR: /* the terminator at least */
		return 1;
	case TRACER_TYPE_U16:
	case TRACER_TYPE_I16:
		return 2;
	case TRACER_TYPE_U32:
	case TRACER_TYPE_I32:
	case TRACER_TYPE_F32:
		return 4;
	case TRACER_TYPE_U64:
	case TRACER_TYPE_I64:
	case TRACER_TYPE_F64:
	case TRACER_TYPE_HEX64:
	case TRACER_TYPE_PTR:
		return 8;
	default:
		return 0;
	}
}

/* The least bytes a field takes in a record; 0: type, shape and count do not go together. */
static u32 field_minimum(u8 type, u8 shape, u16 count)
{
	u32 size = class_type_size(type);

	switch (shape) {
	case TRACER_SHAPE_ONE:
		return count || type == TRACER_TYPE_BYTE ? 0 : size;
	case TRACER_SHAPE_FIXED:
		return type == TRACER_TYPE_STR ? 0 : size * count;
	case TRACER_SHAPE_VAR:
		return count || type == TRACER_TYPE_STR || !size ? 0 : sizeof(u16);
	default:
		return 0;
	}
}

int class_decode(struct event_class **ret, const u8 *p, size_t size)
{
	struct {
		const char *name;
		size_t length;
		u8 type, shape;
		u16 count;
	} f[CLASS_MAX_FIELDS];
	_cleanup_free_ struct event_class *c = NULL;
	const char *provider, *name;
	size_t provider_length, name_length, room;
	struct cursor at;
	u32 minimum = 0;
	u16 bytes;
	u8 level, n;
	char *text;
	int r;

	if (size < 4)
		return -EBADMSG;
	memcpy(&bytes, p, sizeof(bytes));
	if (bytes < 4 || bytes > size)
		return -EBADMSG;
	level = p[2];
	n = p[3];
	if (level > TRACER_DEBUG || n > CLASS_MAX_FIELDS)
		return -EBADMSG;
	at = (struct cursor){p + 4, bytes - 4u};

	r = take_name(&at, true, &provider, &provider_length);
	if (r < 0)
		return r;
	r = take_name(&at, false, &name, &name_length);
	if (r < 0)
		return r;
	room = sizeof(*c) + n * sizeof(c->fields[0]) + provider_length + 1 + name_length + 1;
	for (u8 i = 0; i < n; i++) {
		u32 least;

		if (at.left < 4)
			return -EBADMSG;
		f[i].type = at.p[0];
		f[i].shape = at.p[1];
		memcpy(&f[i].count, at.p + 2, sizeof(f[i].count));
		at.p += 4;
		at.left -= 4;
		r = take_name(&at, false, &f[i].name, &f[i].length);
		if (r < 0)
			return r;
		least = field_minimum(f[i].type, f[i].shape, f[i].count);
		if (!least)
			return -EBADMSG;
		/* what can never be recorded needs no id */
		minimum += least;
		if (minimum > ABI_MAX_RECORD)
			return -EBADMSG;
		/* two fields of one name make metadata that no reader takes */
		for (u8 k = 0; k < i; k++)
			if (f[k].length == f[i].length &&
			    !memcmp(f[k].name, f[i].name, f[i].length))
				return -EBADMSG;
		room += f[i].length + 1;
	}
	if (at.left)
		return -EBADMSG;

	c = malloc(room);
	if (!c)
		return -ENOMEM;
	text = (char *)&c->fields[n];
	c->level = level;
	c->n_fields = n;
	c->provider = memcpy(text, provider, provider_length + 1);
	text += provider_length + 1;
	c->name = memcpy(text, name, name_length + 1);
	text += name_length + 1;
	for (u8 i = 0; i < n; i++) {
		c->fields[i] = (struct class_field){
		    .name = memcpy(text, f[i].name, f[i].length + 1),
		    .type = f[i].type,
		    .shape = f[i].shape,
		    .count = f[i].count,
		};
		text += f[i].length + 1;
	}
	*ret = steal_ptr(c);
	return bytes;
}

/* Where the next bytes go, or NULL: there is no room. */
static u8 *put(u8 *to, const u8 *end, const void *bytes, size_t n)
{
	if (!to || (size_t)(end - to) < n)
		return NULL;
	memcpy(to, bytes, n);
	return to + n;
}

size_t class_encode(const struct event_class *c, u8 *p, size_t size)
{
	const u8 *end = p + size;
	const u8 head[] = {0, 0, c->level, c->n_fields};
	u8 *to = put(p, end, head, sizeof(head));
	u16 bytes;

	to = put(to, end, c->provider, strlen(c->provider) + 1);
	to = put(to, end, c->name, strlen(c->name) + 1);
	for (u8 i = 0; i < c->n_fields; i++) {
		const struct class_field *f = &c->fields[i];
		const u8 shape[] = {f->type, f->shape};

		to = put(to, end, shape, sizeof(shape));
		to = put(to, end, &f->count, sizeof(f->count));
		to = put(to, end, f->name, strlen(f->name) + 1);
	}
	if (!to)
		return 0;
	bytes = (u16)(to - p);
	memcpy(p, &bytes, sizeof(bytes));
	return bytes;
}

bool class_equal(const struct event_class *a, const struct event_class *b)
{
	if (a->level != b->level || a->n_fields != b->n_fields ||
	    strcmp(a->provider, b->provider) || strcmp(a->name, b->name))
		return false;
	for (u8 i = 0; i < a->n_fields; i++) {
		const struct class_field *x = &a->fields[i], *y = &b->fields[i];

		if (x->type != y->type || x->shape != y->shape || x->count != y->count ||
		    strcmp(x->name, y->name))
			return false;
	}
	return true;
}
