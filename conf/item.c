/* SPDX-License-Identifier: MIT */
#include "conf/item.h"

#include "conf/problem.h"
#include "conf/text.h"

/* What is wrong with any item. */
static int item_check(const char *s, char **ret_text)
{
	char word[WORD_SHOWN + 8];

	if (!*s)
		return problem_text(ret_text, "an item is empty");
	if (strlen(s) > ITEM_MAX)
		return problem_text(ret_text, "%s is longer than %d bytes", problem_word(s, word),
				    ITEM_MAX);
	if (!text_printable(s))
		return problem_text(ret_text, "%s holds control characters or is not UTF-8",
				    problem_word(s, word));
	return 0;
}

static bool is_glob(const char *s)
{
	return strpbrk(s, "*?") != NULL;
}

int item_event(const char *s, char **ret_text)
{
	char word[WORD_SHOWN + 8];
	const char *colon;
	int r = item_check(s, ret_text);

	if (r < 0)
		return r;
	(void)problem_word(s, word);
	if (strpbrk(s, " \t,;"))
		return problem_text(ret_text,
				    "%s is no pattern of one PROVIDER:EVENT; write each in quotes of its "
				    "own, as in [ \"shop:*\", \"libc:*\" ]",
				    word);
	for (const char *p = s; *p; p++)
		if (*p < 0x21 || *p > 0x7e)
			return problem_text(ret_text, "%s holds letters that no event's name can have",
					    word);
	colon = strchr(s, ':');
	if (colon && strchr(colon + 1, ':'))
		return problem_text(ret_text, "%s has more than one ':'; write \"PROVIDER:EVENT\"",
				    word);
	if (colon && (colon == s || !colon[1]))
		return problem_text(ret_text, "%s lacks what stands %s ':'; write '*' for anything",
				    word, colon == s ? "before" : "behind");
	return 0;
}

int item_user(const char *s, char **ret_text)
{
	char word[WORD_SHOWN + 8];
	int r = item_check(s, ret_text);
	u64 n = 0;

	if (r < 0)
		return r;
	(void)problem_word(s, word);
	if (strspn(s, "0123456789") == strlen(s)) {
		for (const char *p = s; *p && n <= UINT32_MAX; p++)
			n = n * 10 + (u64)(*p - '0');
		/* the last number means "nobody" to the kernel's calls */
		if (n >= UINT32_MAX)
			return problem_text(ret_text, "%s is no user's number; they end at %u", word,
					    UINT32_MAX - 1);
		return 0;
	}
	if (strpbrk(s, " \t:,;/*?") || *s == '-')
		return problem_text(ret_text, "%s is neither a user's name nor a number", word);
	return 0;
}

int item_process(const char *s, char **ret_text)
{
	enum { COMM_MAX = 15 };
	char word[WORD_SHOWN + 8];
	int r = item_check(s, ret_text);

	if (r < 0)
		return r;
	if (strchr(s, '/'))
		return problem_text(ret_text, "%s is a path; write the name alone: \"%s\"",
				    problem_word(s, word),
				    strrchr(s, '/')[1] ? strrchr(s, '/') + 1 : "NAME");
	if (!is_glob(s) && strlen(s) > COMM_MAX) {
		char cut[COMM_MAX + 1], cut_word[WORD_SHOWN + 8];

		memcpy(cut, s, COMM_MAX);
		cut[COMM_MAX] = '\0';
		return problem_text(ret_text,
				    "%s matches no process, as the kernel keeps %d bytes of a name; write %s",
				    problem_word(s, word), COMM_MAX, problem_word(cut, cut_word));
	}
	return 0;
}

int item_unit(const char *s, char **ret_text)
{
	static const char *const suffixes[] = { ".service", ".scope", ".slice",	    ".socket",
						".timer",   ".path",  ".target",    ".mount",
						".device",  ".swap",  ".automount" };
	char word[WORD_SHOWN + 8];
	const char *dot = strrchr(s, '.');
	int r = item_check(s, ret_text);

	if (r < 0)
		return r;
	(void)problem_word(s, word);
	if (strpbrk(s, " \t,;/"))
		return problem_text(ret_text, "%s is no unit's name", word);
	if (is_glob(s))
		return 0;
	for (size_t i = 0; dot && dot != s && i < ELEMENTSOF(suffixes); i++)
		if (strcmp(dot, suffixes[i]) == 0)
			return 0;
	return problem_text(ret_text, "%s is no unit's name; write \"%.200s.service\", or its own suffix",
			    word, s);
}
