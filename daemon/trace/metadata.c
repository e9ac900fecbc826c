/* SPDX-License-Identifier: MIT */
#include "daemon/trace/metadata.h"

#include <inttypes.h>
#include <stdio.h>

#include "conf/config.h"

/* ---- strings of others ---- */

/* The length of the well-formed UTF-8 sequence at p, 0 if it is none. Overlong forms and surrogates
 * are none. */
size_t metadata_utf8_length(const u8 *p)
{
	static const u32 least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = p[0] < 0x80                   ? 1
		   : p[0] >= 0xF0 && p[0] < 0xF5 ? 4
		   : p[0] >= 0xE0 && p[0] < 0xF0 ? 3
		   : p[0] >= 0xC2 && p[0] < 0xE0 ? 2
						 : 0;
	u32 c = n > 1 ? p[0] & (0xFFu >> (n + 1)) : p[0];

	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xC0) != 0x80) /* also the NUL of a string that ends early */
			return 0;
		c = c << 6 | (p[i] & 0x3F);
	}
	if (n > 1 && (c < least[n] || (c >= 0xD800 && c < 0xE000) || c > 0x10FFFF))
		return 0;
	return n;
}

/* A TSDL string. Newlines and tabs survive; other control characters, C1 ones included, and what is
 * no UTF-8 become visible text ("\x1B"): the metadata stays one that every reader parses, and
 * whoever prints it to a terminal does not hand the terminal to the one who wrote the reason. */
void metadata_put_string(FILE *f, const char *s)
{
	const u8 *p = (const u8 *)s;

	fputc('"', f);
	while (*p) {
		size_t n = metadata_utf8_length(p);

		if (*p == '"' || *p == '\\')
			fprintf(f, "\\%c", *p);
		else if (*p == '\n')
			fputs("\\n", f);
		else if (*p == '\t')
			fputs("\\t", f);
		else if (n == 0 || *p < 0x20 || *p == 0x7F)
			fprintf(f, "\\\\x%02X", *p);
		else if (n == 2 && p[0] == 0xC2 && p[1] < 0xA0)
			fprintf(f, "\\\\u%04X", p[1]);
		else
			fwrite(p, 1, n, f);
		p += n ? n : 1;
	}
	fputc('"', f);
}

/* Makes an identifier of s, in place. */
static void identifier_clean(char *s)
{
	for (; *s; s++) {
		bool good = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') ||
			    (*s >= '0' && *s <= '9') || *s == '_';

		if (!good)
			*s = '_';
	}
}

void metadata_put_uuid(FILE *f, const u8 u[16])
{
	fputc('"', f);
	for (int i = 0; i < 16; i++)
		fprintf(f, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", u[i]);
	fputc('"', f);
}

/* ---- types ---- */

/* Everything in a record's body is packed: an alignment above 8 would make readers skip bytes. */
static const char *const type_text[] = {
    [TRACER_TYPE_U8] = "integer { size = 8; align = 8; signed = false; }",
    [TRACER_TYPE_U16] = "integer { size = 16; align = 8; signed = false; }",
    [TRACER_TYPE_U32] = "integer { size = 32; align = 8; signed = false; }",
    [TRACER_TYPE_U64] = "integer { size = 64; align = 8; signed = false; }",
    [TRACER_TYPE_I8] = "integer { size = 8; align = 8; signed = true; }",
    [TRACER_TYPE_I16] = "integer { size = 16; align = 8; signed = true; }",
    [TRACER_TYPE_I32] = "integer { size = 32; align = 8; signed = true; }",
    [TRACER_TYPE_I64] = "integer { size = 64; align = 8; signed = true; }",
    [TRACER_TYPE_F32] = "floating_point { exp_dig = 8; mant_dig = 24; align = 8; }",
    [TRACER_TYPE_F64] = "floating_point { exp_dig = 11; mant_dig = 53; align = 8; }",
    [TRACER_TYPE_BOOL] = "integer { size = 8; align = 8; signed = false; }",
    [TRACER_TYPE_HEX64] = "integer { size = 64; align = 8; signed = false; base = 16; }",
    [TRACER_TYPE_PTR] = "integer { size = 64; align = 8; signed = false; base = 16; }",
    [TRACER_TYPE_STR] = "string { encoding = UTF8; }",
    [TRACER_TYPE_BYTE] = "integer { size = 8; align = 8; signed = false; base = 16; }",
};

/* Names that one class has used so far: a producer may declare a field twice, or one that is called
 * like another's length, and a struct with two fields of one name is refused by readers with the
 * whole trace. */
typedef struct {
	char *v[2 * CLASS_MAX_FIELDS]; /* owned */
	size_t n;
} Names;

static void names_clear(Names *names)
{
	while (names->n > 0)
		free(names->v[--names->n]);
}

/* Finds a free name like `prefix` + name + `suffix`, and keeps it. NULL: no memory. */
static const char *names_add(Names *names, const char *prefix, const char *name, const char *suffix)
{
	for (u32 turn = 1;; turn++) {
		_cleanup_free_ char *candidate = NULL;
		int r = turn == 1 ? asprintf(&candidate, "%s%s%s", prefix, name, suffix)
				  : asprintf(&candidate, "%s%s%s_%u", prefix, name, suffix, turn);
		bool taken = false;

		if (r < 0) {
			candidate = NULL;
			return NULL;
		}
		identifier_clean(candidate);
		for (size_t i = 0; i < names->n; i++)
			taken |= strcmp(names->v[i], candidate) == 0;
		if (!taken) {
			names->v[names->n] = steal_ptr(candidate);
			return names->v[names->n++];
		}
	}
}

/* The prefix `_` keeps fields apart from TSDL's keywords; readers take it off again. */
static int put_field(FILE *f, const struct class_field *field, Names *names)
{
	const char *name, *length = NULL;

	if (field->shape == TRACER_SHAPE_FIXED && field->count == 0)
		return 0; /* takes no bytes */
	if (field->shape == TRACER_SHAPE_VAR) {
		length = names_add(names, "__", field->name, "_length");
		if (!length)
			return -ENOMEM;
		fprintf(f, "\t\t%s %s;\n", type_text[TRACER_TYPE_U16], length);
	}
	name = names_add(names, "_", field->name, "");
	if (!name)
		return -ENOMEM;
	fprintf(f, "\t\t%s %s", type_text[field->type], name);
	if (length)
		fprintf(f, "[%s]", length);
	else if (field->shape == TRACER_SHAPE_FIXED)
		fprintf(f, "[%u]", field->count);
	fputs(";\n", f);
	return 0;
}

static int put_class(FILE *f, const TraceClass *c)
{
	const struct event_class *class = c->class;
	_cleanup_free_ char *name = NULL;
	Names names = {.n = 0};
	int r = 0;

	if (asprintf(&name, "%s:%s", class->provider, class->name) < 0) {
		name = NULL;
		return -ENOMEM;
	}
	fputs("\nevent {\n\tname = ", f);
	metadata_put_string(f, name);
	fprintf(f, ";\n\tid = %u;\n\tstream_id = 0;\n\tloglevel = %u;\n\tfields := struct {\n",
		c->id, class->level);
	for (u32 i = 0; i < class->n_fields && r == 0; i++)
		r = put_field(f, &class->fields[i], &names);
	fputs("\t};\n};\n", f);
	names_clear(&names);
	return r;
}

/* ---- the rest of the text ---- */

static const char text_head[] =
    "/* CTF 1.8 */\n"
    "\n"
    "typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
    "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
    "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
    "\n"
    "trace {\n"
    "\tmajor = 1;\n"
    "\tminor = 8;\n"
    "\tbyte_order = le;\n"
    "\tuuid = ";

static const char text_packet_header[] = ";\n"
					 "\tpacket.header := struct {\n"
					 "\t\tuint32_t magic;\n"
					 "\t\tuint8_t uuid[16];\n"
					 "\t\tuint32_t stream_id;\n"
					 "\t\tuint64_t stream_instance_id;\n"
					 "\t};\n"
					 "};\n";

/* Bytes 2 and 3 of a record are its length; they lie in the hole that `align = 32` leaves behind
 * the id. */
static const char text_stream[] =
    "\nstream {\n"
    "\tid = 0;\n"
    "\tpacket.context := struct {\n"
    "\t\tinteger { size = 64; align = 8; signed = false; map = clock.tracer.value; } "
    "timestamp_begin;\n"
    "\t\tinteger { size = 64; align = 8; signed = false; map = clock.tracer.value; } "
    "timestamp_end;\n"
    "\t\tuint64_t content_size;\n"
    "\t\tuint64_t packet_size;\n"
    "\t\tuint64_t packet_seq_num;\n"
    "\t\tuint64_t events_discarded;\n"
    "\t\tuint32_t cpu_id;\n"
    "\t};\n"
    "\tevent.header := struct {\n"
    "\t\tenum : integer { size = 16; align = 16; signed = false; } { compact = 0 ... 65534, "
    "extended = 65535 } id;\n"
    "\t\tvariant <id> {\n"
    "\t\t\tstruct {\n"
    "\t\t\t\tinteger { size = 32; align = 32; signed = false; map = clock.tracer.value; } "
    "timestamp;\n"
    "\t\t\t} compact;\n"
    "\t\t\tstruct {\n"
    "\t\t\t\tinteger { size = 32; align = 32; signed = false; } id;\n"
    "\t\t\t\tinteger { size = 64; align = 32; signed = false; map = clock.tracer.value; } "
    "timestamp;\n"
    "\t\t\t} extended;\n"
    "\t\t} v;\n"
    "\t} align(32);\n";

static void put_clock(FILE *f, const TraceClock *clock)
{
	fputs("\nclock {\n\tname = \"tracer\";\n\tuuid = ", f);
	metadata_put_uuid(f, clock->uuid);
	fputs(";\n\tdescription = ", f);
	metadata_put_string(f, clock->description ? clock->description : "");
	/* The offset makes it the time of day since the epoch. `absolute` says so, and lets
	 * snapshots of several boots and machines be opened together: readers refuse clocks that
	 * are not absolute unless all have one uuid. */
	fprintf(f,
		";\n\tfreq = 1000000000;\n\toffset_s = %" PRIu64 ";\n\toffset = %" PRIu64
		";\n\tabsolute = TRUE;\n};\n",
		(uint64_t)(clock->realtime_offset_ns / NSEC_PER_SEC),
		(uint64_t)(clock->realtime_offset_ns % NSEC_PER_SEC));
}

static bool is_keyword(const char *s)
{
	static const char *const words[] = {
	    "align",   "callsite", "char",    "clock",          "const",  "double",  "enum",
	    "env",     "event",    "float",   "floating_point", "int",    "integer", "long",
	    "short",   "signed",   "stream",  "string",         "struct", "trace",   "typealias",
	    "typedef", "unsigned", "variant", "void",
	};

	for (size_t i = 0; i < ELEMENTSOF(words); i++)
		if (strcmp(words[i], s) == 0)
			return true;
	return false;
}

/* A key twice is a warning at every opening of the trace: the first one counts. */
static int put_pair(FILE *f, const TraceEnvironment *e, Strings *keys)
{
	_cleanup_free_ char *key = NULL;
	bool prefix = !e->key[0] || (e->key[0] >= '0' && e->key[0] <= '9') || is_keyword(e->key);
	char **v;

	if (asprintf(&key, "%s%s", prefix ? "_" : "", e->key) < 0) {
		key = NULL;
		return -ENOMEM;
	}
	identifier_clean(key);
	if (strcmp(key, "domain") == 0 || strncmp(key, "tracer_", 7) == 0)
		return 0;
	for (size_t i = 0; i < keys->n; i++)
		if (strcmp(keys->v[i], key) == 0)
			return 0;
	v = reallocarray(keys->v, keys->n + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	keys->v = v;
	fprintf(f, "\t%s = ", key);
	metadata_put_string(f, e->value);
	fputs(";\n", f);
	keys->v[keys->n++] = steal_ptr(key);
	return 0;
}

static int put_environment(FILE *f, const Metadata *m)
{
	unsigned major = 0, minor = 0, patch = 0;
	Strings keys = {NULL, 0};
	int r = 0;

	(void)sscanf(PROJECT_VERSION, "%u.%u.%u", &major, &minor, &patch);
	/* domain and tracer_name choose the kind of trace in Trace Compass */
	fprintf(f,
		"\nenv {\n\tdomain = \"ust\";\n\ttracer_name = \"tracer\";\n\ttracer_major = %u;\n"
		"\ttracer_minor = %u;\n\ttracer_patchlevel = %u;\n",
		major, minor, patch);
	for (size_t i = 0; i < m->n_environment && r == 0; i++)
		r = put_pair(f, &m->environment[i], &keys);
	fputs("};\n", f);
	for (size_t i = 0; i < keys.n; i++)
		free(keys.v[i]);
	free(keys.v);
	return r;
}

int metadata_write(char **ret, size_t *ret_size, const Metadata *m)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	int r = 0;

	if (!f)
		return -ENOMEM;
	fputs(text_head, f);
	metadata_put_uuid(f, m->uuid);
	fputs(text_packet_header, f);
	r = put_environment(f, m);
	put_clock(f, m->clock);
	fputs(text_stream, f);
	if (m->contexts & (ABI_CONTEXT_VPID | ABI_CONTEXT_VTID)) {
		fputs("\tevent.context := struct {\n", f);
		if (m->contexts & ABI_CONTEXT_VPID)
			fputs("\t\tinteger { size = 32; align = 8; signed = true; } _vpid;\n", f);
		if (m->contexts & ABI_CONTEXT_VTID)
			fputs("\t\tinteger { size = 32; align = 8; signed = true; } _vtid;\n", f);
		fputs("\t};\n", f);
	}
	fputs("};\n", f);
	for (size_t i = 0; i < m->n_classes && r == 0; i++)
		r = put_class(f, &m->classes[i]);
	if (ferror(f))
		r = -ENOMEM;
	if (fclose(f) != 0 && r == 0)
		r = -ENOMEM;
	if (r < 0)
		return r;
	*ret = steal_ptr(text);
	*ret_size = size;
	return 0;
}
