/* SPDX-License-Identifier: MIT */
/* No parser of TSDL: metadata.c begins every block in a line of its own and escapes newlines in strings, so that nothing
 * that a program could name or say makes a line look like one of these. */
#include "daemon/trace/text.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "daemon/trace/metadata.h"

/* What lies between "\nNAME {\n" and its "\n};": without the newline in front of the first line, *ret_size bytes. */
static const char *block_find(const char *text, const char *head, size_t *ret_size)
{
	const char *p = strstr(text, head), *end;

	*ret_size = 0;
	if (!p)
		return NULL;
	p += strlen(head) - 1; /* the newline: every line of the block has one in front */
	end = strstr(p, "\n};");
	if (!end)
		return NULL;
	*ret_size = (size_t)(end - p);
	return p;
}

/* What follows "\n\tKEY = " in a block, up to its ';': *ret_size bytes, 0 if there is none. */
static const char *value_find(const char *block, size_t size, const char *key, size_t *ret_size)
{
	size_t n = strlen(key);
	const char *p = memmem(block, size, key, n), *end;

	*ret_size = 0;
	if (!p)
		return NULL;
	p += n;
	end = memchr(p, ';', size - (size_t)(p - block));
	if (!end)
		return NULL;
	*ret_size = (size_t)(end - p);
	return p;
}

static int number_read(const char *block, size_t size, const char *key, u64 *ret)
{
	size_t n;
	const char *p = value_find(block, size, key, &n);
	u64 value = 0;

	if (!p || n == 0)
		return -EBADMSG;
	for (size_t i = 0; i < n; i++)
		if (p[i] < '0' || p[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (u64)(p[i] - '0'), &value))
			return -EBADMSG;
	*ret = value;
	return 0;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "01020304-0506-..." with its quotes */
static int uuid_read(const char *block, size_t size, u8 ret[16])
{
	size_t n, at = 1;
	const char *p = value_find(block, size, "\n\tuuid = ", &n);

	if (!p || n != 38 || p[0] != '"' || p[37] != '"')
		return -EBADMSG;
	for (int i = 0; i < 16; i++) {
		int high, low;

		if ((i == 4 || i == 6 || i == 8 || i == 10) && p[at++] != '-')
			return -EBADMSG;
		high = digit(p[at]);
		low = digit(p[at + 1]);
		if (high < 0 || low < 0)
			return -EBADMSG;
		ret[i] = (u8)(high << 4 | low);
		at += 2;
	}
	return 0;
}

int metadata_text_parse(MetadataText *ret, char *text, size_t size)
{
	static const char event[] = "\n\tevent.header := struct {\n\t\tenum : integer { size = 16; align = 16;";
	MetadataText m = { .text = text, .size = size };
	size_t trace_size, env_size, clock_size, stream_size;
	const char *trace = block_find(text, "\ntrace {\n", &trace_size);
	const char *env = block_find(text, "\nenv {\n", &env_size);
	const char *clock = block_find(text, "\nclock {\n", &clock_size);
	const char *stream = block_find(text, "\nstream {\n", &stream_size);
	u64 freq, seconds, rest;

	/* other tracers' packets begin alike, but their records have no length */
	if (strlen(text) != size || !trace || !env || !clock || !stream ||
	    !memmem(env, env_size, "\n\ttracer_name = \"tracer\";", 25) ||
	    !memmem(trace, trace_size, "\n\tbyte_order = le;", 18) ||
	    !memmem(stream, stream_size, event, strlen(event)))
		return -EBADMSG;
	if (uuid_read(trace, trace_size, m.uuid) < 0 ||
	    number_read(clock, clock_size, "\n\tfreq = ", &freq) < 0 || freq != NSEC_PER_SEC ||
	    number_read(clock, clock_size, "\n\toffset_s = ", &seconds) < 0 ||
	    number_read(clock, clock_size, "\n\toffset = ", &rest) < 0 ||
	    __builtin_mul_overflow(seconds, NSEC_PER_SEC, &m.offset) ||
	    __builtin_add_overflow(m.offset, rest, &m.offset))
		return -EBADMSG;
	*ret = m;
	return 0;
}

int metadata_text_read(MetadataText *ret, int dir_fd)
{
	_cleanup_close_ int fd = openat(dir_fd, "metadata", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	_cleanup_free_ char *text = NULL;
	struct stat st;
	size_t n = 0;
	int r;

	if (fd < 0)
		return errno == ELOOP ? -EBADMSG : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)METADATA_TEXT_MAX)
		return -EBADMSG;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	while (n < (size_t)st.st_size) {
		ssize_t got = read(fd, text + n, (size_t)st.st_size - n);

		if (got < 0 && errno != EINTR)
			return -errno;
		if (got == 0)
			break;
		n += got > 0 ? (size_t)got : 0;
	}
	text[n] = '\0';
	r = metadata_text_parse(ret, text, n);
	if (r == 0)
		text = NULL; /* it is *ret's */
	return r;
}

void metadata_text_clear(MetadataText *m)
{
	free(m->text);
	*m = (MetadataText){ 0 };
}

/* ---- the copy ---- */

/* True if a line of the environment, "\tKEY = ...", is about one of the pairs. */
static bool line_replaced(const char *line, const TraceEnvironment *pairs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t length = strlen(pairs[i].key);

		if (line[0] == '\t' && strncmp(line + 1, pairs[i].key, length) == 0 &&
		    strncmp(line + 1 + length, " = ", 3) == 0)
			return true;
	}
	return false;
}

static void put_environment(FILE *f, const char *block, size_t size, const TraceEnvironment *pairs, size_t n)
{
	const char *p = block + 1, *end = block + size; /* behind the newline in front */

	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		size_t length = newline ? (size_t)(newline - p) : (size_t)(end - p);

		if (!line_replaced(p, pairs, n)) {
			(void)fwrite(p, 1, length, f);
			(void)fputc('\n', f);
		}
		p += length + 1;
	}
	for (size_t i = 0; i < n; i++) {
		(void)fprintf(f, "\t%s = ", pairs[i].key);
		metadata_put_string(f, pairs[i].value);
		(void)fputs(i + 1 < n ? ";\n" : ";", f);
	}
}

int metadata_text_copy(const MetadataText *m, const u8 uuid[16], const TraceEnvironment *pairs, size_t n, char **ret,
		       size_t *ret_size)
{
	_cleanup_free_ char *text = NULL;
	size_t size = 0, trace_size, env_size, uuid_size;
	/* all of them were there when it was parsed */
	const char *trace = block_find(m->text, "\ntrace {\n", &trace_size);
	const char *env = block_find(m->text, "\nenv {\n", &env_size);
	const char *old = value_find(trace, trace_size, "\n\tuuid = ", &uuid_size);
	const char *end = m->text + m->size;
	FILE *f;
	int r = 0;

	if (old > env)
		return -EBADMSG;
	f = open_memstream(&text, &size);
	if (!f)
		return -ENOMEM;
	(void)fwrite(m->text, 1, (size_t)(old - m->text), f);
	metadata_put_uuid(f, uuid);
	old += uuid_size;
	(void)fwrite(old, 1, (size_t)(env + 1 - old), f);
	put_environment(f, env, env_size, pairs, n);
	(void)fwrite(env + env_size, 1, (size_t)(end - env) - env_size, f);
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
