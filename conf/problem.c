/* SPDX-License-Identifier: MIT */
#include "conf/problem.h"

#include <stdarg.h>

#include "conf/text.h"

static int problem_push(ConfigProblems *p, const char *file, int line, bool warning, char *text)
{
	char *name = file ? strdup(file) : NULL;
	ConfigProblem *v;

	if (file && !name)
		return -ENOMEM;
	v = realloc(p->v, (p->n + 1) * sizeof(*v));
	if (!v) {
		free(name);
		return -ENOMEM;
	}
	p->v = v;
	p->v[p->n++] = (ConfigProblem){ .file = name, .line = line, .warning = warning, .text = text };
	return 0;
}

static int problem_vadd(ConfigProblems *p, const char *file, int line, bool warning, const char *format, va_list args)
{
	char *text = NULL;
	int r;

	if (vasprintf(&text, format, args) < 0)
		return -ENOMEM;
	r = problem_push(p, file, line, warning, text);
	if (r < 0)
		free(text);
	return r;
}

int problem_add(ConfigProblems *p, const char *file, int line, bool warning, const char *format, ...)
{
	va_list args;
	int r;

	va_start(args, format);
	r = problem_vadd(p, file, line, warning, format, args);
	va_end(args);
	return r;
}

static int file_vadd(const FileProblems *p, int line, const char *format, va_list args)
{
	return p->all->n - p->first >= PROBLEMS_PER_FILE ? 0 : problem_vadd(p->all, p->file, line, false, format, args);
}

int problem_complain(const FileProblems *p, int line, const char *format, ...)
{
	va_list args;
	int r;

	va_start(args, format);
	r = file_vadd(p, line, format, args);
	va_end(args);
	return r;
}

int problem_follow(const FileProblems *p, int line, const char *format, ...)
{
	va_list args;
	int r;

	if (p->all->n > p->first && p->all->v[p->all->n - 1].line == line)
		return 0;
	va_start(args, format);
	r = file_vadd(p, line, format, args);
	va_end(args);
	return r;
}

bool problem_error_since(const ConfigProblems *p, size_t first)
{
	for (size_t i = first; i < p->n; i++)
		if (!p->v[i].warning)
			return true;
	return false;
}

/* An insertion sort: stable, and a file has PROBLEMS_PER_FILE at most, plus a warning for a group. */
void problem_sort(ConfigProblems *p, size_t first)
{
	for (size_t i = first + 1; i < p->n; i++) {
		ConfigProblem moving = p->v[i];
		size_t j = i;

		for (; j > first && p->v[j - 1].line > moving.line; j--)
			p->v[j] = p->v[j - 1];
		p->v[j] = moving;
	}
}

int problem_text(char **ret_text, const char *format, ...)
{
	char *text = NULL;
	va_list args;
	int r;

	va_start(args, format);
	r = vasprintf(&text, format, args);
	va_end(args);
	if (r < 0)
		return -ENOMEM;
	*ret_text = text;
	return -EINVAL;
}

const char *problem_word(const char *word, char ret[WORD_SHOWN + 8])
{
	return problem_bytes(word, strlen(word), ret);
}

const char *problem_bytes(const char *word, size_t n, char ret[WORD_SHOWN + 8])
{
	size_t out = 0;

	ret[out++] = '"';
	for (size_t i = 0; i < n;) {
		size_t w = text_character(word + i, n - i);

		if (out + (w ? w : 1) > WORD_SHOWN) {
			memcpy(ret + out, "...", 3);
			out += 3;
			break;
		}
		if (w == 0 || (u8)word[i] < 0x20 || word[i] == 0x7f) {
			ret[out++] = '?';
			i++;
			continue;
		}
		memcpy(ret + out, word + i, w);
		out += w;
		i += w;
	}
	ret[out++] = '"';
	ret[out] = '\0';
	return ret;
}

void config_problems_clear(ConfigProblems *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].file);
		free(p->v[i].text);
	}
	free(p->v);
	*p = (ConfigProblems){ 0 };
}

char *config_problem_text(const ConfigProblem *p)
{
	const char *kind = p->warning ? "warning" : "error";
	char *text = NULL;
	int r;

	if (!p->file)
		r = asprintf(&text, "%s: %s", kind, p->text);
	else if (p->line <= 0)
		r = asprintf(&text, "%s: %s: %s", p->file, kind, p->text);
	else
		r = asprintf(&text, "%s:%d: %s: %s", p->file, p->line, kind, p->text);
	return r < 0 ? NULL : text;
}
