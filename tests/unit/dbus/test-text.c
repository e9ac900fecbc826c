/* SPDX-License-Identifier: MIT */
/* What is shown: text, tables, JSON. */
#include "dbus/json.h"
#include "dbus/table.h"
#include "dbus/text.h"

#include <glib.h>
#include <sys/socket.h>
#include <unistd.h>

static void clean(void)
{
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "plain", "plain" },
		{ "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80" },
		{ "\033[2Jx\n\t\x7f", "?[2Jx???" },
		{ "\xc2\x9b" "2J", "?2J" },		 /* CSI as one character */
		{ "\xff\xfe", "??" },
		{ "\xc0\xaf", "??" },			 /* overlong */
		{ "\xe0\x80\xaf", "???" },
		{ "\xed\xa0\x80", "???" },		 /* surrogate */
		{ "\xf4\x90\x80\x80", "????" },		 /* beyond U+10FFFF */
		{ "a\xe2\x82", "a??" },			 /* cut */
		{ "", "" },
		{ NULL, "" },
	};
	char buffer[64];

	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
		g_assert_cmpstr(text_clean(cases[i].in, buffer, sizeof(buffer)), ==, cases[i].out);
		g_assert_true(g_utf8_validate(buffer, -1, NULL));
	}
	/* cut at a character */
	g_assert_cmpstr(text_clean("ab\xe2\x82\xac", buffer, 5), ==, "ab");
	g_assert_cmpstr(text_clean("ab\xe2\x82\xac", buffer, 6), ==, "ab\xe2\x82\xac");
	g_assert_cmpstr(text_clean("abc", buffer, 1), ==, "");
	g_assert_cmpuint(text_columns("\xc3\xa4\xe2\x82\xac" "a"), ==, 3);
}

/* Any bytes: the result is valid, and fits. */
static void clean_random(void)
{
	unsigned char in[40];
	char out[40];

	for (int i = 0; i < 200000; i++) {
		size_t size = (size_t)g_test_rand_int_range(1, sizeof(out));

		for (size_t k = 0; k < sizeof(in) - 1; k++)
			in[k] = (unsigned char)g_test_rand_int();
		in[sizeof(in) - 1] = 0;
		text_clean((const char *)in, out, size);
		g_assert_cmpuint(strlen(out), <, size);
		g_assert_true(g_utf8_validate(out, -1, NULL));
	}
}

static void table(void)
{
	_cleanup_(table_clear) Table t = TABLE("NAME", ">SIZE", "LAST");
	char *text = NULL;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	g_assert_cmpint(table_add(&t, "a"), ==, 0);
	g_assert_cmpint(table_addf(&t, "%d", 12345), ==, 0);
	g_assert_cmpint(table_add(&t, ""), ==, 0);
	g_assert_cmpint(table_add(&t, "l\xc3\xa4nger"), ==, 0);
	g_assert_cmpint(table_add(&t, "1"), ==, 0);
	g_assert_cmpint(table_add(&t, "x\033y"), ==, 0);
	table_print(&t, out, true, "\n");
	fclose(out);
	g_assert_cmpstr(text, ==,
			"NAME     SIZE  LAST\n"
			"a       12345  -\n"
			"l\xc3\xa4nger      1  x?y\n");
	free(text);
}

static char *variant_json(bool pretty)
{
	int ends[2];
	sd_bus_message *m = NULL;
	sd_bus *bus = NULL;
	Json j = { .pretty = pretty };
	char *text = NULL;
	size_t n;

	g_assert_cmpint(sd_bus_new(&bus), >=, 0);
	/* nobody answers, and nobody has to: the message is only built and read */
	g_assert_cmpint(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ==, 0);
	g_assert_cmpint(sd_bus_set_fd(bus, ends[0], ends[0]), >=, 0);
	g_assert_cmpint(sd_bus_start(bus), >=, 0);
	g_assert_cmpint(sd_bus_message_new_method_call(bus, &m, NULL, "/", NULL, "X"), >=, 0);
	g_assert_cmpint(sd_bus_message_append(m, "a{sv}", 6, "LastSnapshot", "s", "a\"\\\n", "IO", "t", UINT64_MAX,
					      "Fill", "d", 0.5, "Events", "as", 0, "Lost", "a{st}", 1, "full",
					      (u64)3, "Deep", "a(ss)", 1, "x", "y"),
			>=, 0);
	g_assert_cmpint(sd_bus_message_seal(m, 1, 0), >=, 0);
	j.out = open_memstream(&text, &n);
	json_open(&j, '{');
	g_assert_cmpint(json_properties(&j, m), >=, 0);
	json_close(&j, '}');
	fclose(j.out);
	sd_bus_message_unref(m);
	sd_bus_close_unref(bus);
	close(ends[1]);
	return text;
}

static void json(void)
{
	char *text = variant_json(false);

	g_assert_cmpstr(text, ==,
			"{\"last_snapshot\":\"a\\\"\\\\\\u000a\",\"io\":18446744073709551615,\"fill\":0.5,"
			"\"events\":[],\"lost\":{\"full\":3},\"deep\":[[\"x\",\"y\"]]}\n");
	free(text);
	text = variant_json(true);
	g_assert_nonnull(strstr(text, "\n\t\"fill\": 0.5,\n\t\"events\": [],\n"));
	free(text);
}

int main(int argc, char **argv)
{
	g_test_init(&argc, &argv, NULL);
	g_test_add_func("/text/clean", clean);
	g_test_add_func("/text/clean-random", clean_random);
	g_test_add_func("/text/table", table);
	g_test_add_func("/text/json", json);
	return g_test_run();
}
