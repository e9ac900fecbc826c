/* SPDX-License-Identifier: MIT */
/* Who may what: with a polkit of the test's own that allows, refuses, wants a password, thinks for long, talks
 * nonsense, or is not there. */
#include "dbus/errors.h"
#include "tests/integration/dbus/private-bus.h"

/* a user that every system has, and is not NOBODY */
#define DAEMON 1

typedef enum { ALLOW, DENY, CHALLENGE, HOLD, NONSENSE, FAIL } Mood;

typedef struct {
	PrivateBus *b;
	sd_bus *polkit, *nobody;
	Mood mood;
	unsigned n_asked, n_cancelled;
	char *subject, *action, *session;
	u32 flags;
	sd_bus_message *held[64];
	unsigned n_held;
	bool asked, cancelled;
} Office;

static int polkit_reply(sd_bus_message *m, bool authorized, bool challenge)
{
	return sd_bus_reply_method_return(m, "(bba{ss})", authorized, challenge, 0);
}

static int on_check(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	const char *kind, *key, *subject, *action, *cancellation, *detail = NULL, *session = NULL;
	Office *o = userdata;

	g_assert_cmpint(sd_bus_message_read(m, "(sa{sv})s", &kind, 1, &key, "s", &subject, &action), >=, 0);
	g_assert_cmpstr(kind, ==, "system-bus-name");
	g_assert_cmpstr(key, ==, "name");
	g_assert_cmpint(sd_bus_message_enter_container(m, 'a', "{ss}"), >=, 0);
	while (sd_bus_message_read(m, "{ss}", &detail, &session) > 0)
		g_assert_cmpstr(detail, ==, "session");
	g_assert_cmpint(sd_bus_message_exit_container(m), >=, 0);
	g_assert_cmpint(sd_bus_message_read(m, "us", &o->flags, &cancellation), >=, 0);
	g_free(o->subject);
	g_free(o->action);
	g_free(o->session);
	o->subject = g_strdup(subject);
	o->action = g_strdup(action);
	o->session = g_strdup(session);
	o->n_asked++;
	o->asked = true;
	switch (o->mood) {
	case ALLOW:
		return polkit_reply(m, true, false);
	case DENY:
		return polkit_reply(m, false, false);
	case CHALLENGE:
		return polkit_reply(m, false, true);
	case HOLD:
		o->held[o->n_held++] = sd_bus_message_ref(m);
		return 1;
	case NONSENSE: /* the filter's */
		break;
	case FAIL:
		return sd_bus_error_set(error, "org.freedesktop.PolicyKit1.Error.Failed", "no idea");
	}
	return -EINVAL;
}

static int on_cancel(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	Office *o = userdata;

	o->n_cancelled++;
	o->cancelled = true;
	return sd_bus_reply_method_return(m, NULL);
}

/* Before the vtable, which would not let an answer of the wrong form out. */
static int on_message(sd_bus_message *m, void *userdata, sd_bus_error *error)
{
	Office *o = userdata;

	if (o->mood != NONSENSE || !sd_bus_message_is_method_call(m, NULL, "CheckAuthorization"))
		return 0;
	return sd_bus_reply_method_return(m, "s", "maybe");
}

static const sd_bus_vtable polkit_vtable[] = {
	SD_BUS_VTABLE_START(0),
	SD_BUS_METHOD("CheckAuthorization", "(sa{sv})sa{ss}us", "(bba{ss})", on_check, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_METHOD("CancelCheckAuthorization", "s", NULL, on_cancel, SD_BUS_VTABLE_UNPRIVILEGED),
	SD_BUS_VTABLE_END,
};

static void polkit_open(Office *o)
{
	o->polkit = private_bus_connect(o->b, geteuid(), 0);
	g_assert_cmpint(sd_bus_add_object_vtable(o->polkit, NULL, "/org/freedesktop/PolicyKit1/Authority",
						 "org.freedesktop.PolicyKit1.Authority", polkit_vtable, o),
			>=, 0);
	g_assert_cmpint(sd_bus_add_filter(o->polkit, NULL, on_message, o), >=, 0);
	g_assert_cmpint(sd_bus_request_name(o->polkit, "org.freedesktop.PolicyKit1", 0), >=, 0);
}

static void polkit_close(Office *o)
{
	while (o->n_held > 0)
		sd_bus_message_unref(o->held[--o->n_held]);
	if (!o->polkit)
		return;
	sd_bus_detach_event(o->polkit);
	o->polkit = sd_bus_close_unref(o->polkit);
}

static void office_open(Office *o, bool polkit)
{
	o->b = private_bus_new(NULL);
	private_bus_start(o->b);
	private_bus_serve(o->b);
	fake_snapshots_at_once(o->b->manager, o->b->event);
	fake_session_add(o->b->manager, "flight");
	o->nobody = private_bus_connect(o->b, NOBODY, 0);
	if (polkit)
		polkit_open(o);
}

static void nobody_leaves(Office *o)
{
	if (!o->nobody)
		return;
	sd_bus_detach_event(o->nobody);
	o->nobody = sd_bus_close_unref(o->nobody);
}

static void office_close(Office *o)
{
	nobody_leaves(o);
	polkit_close(o);
	private_bus_free(o->b);
	g_free(o->subject);
	g_free(o->action);
	g_free(o->session);
}

static bool running(Office *o)
{
	SessionInfo info;

	session_info(manager_find(o->b->manager, "flight"), &info);
	return strcmp(info.state, "running") == 0;
}

static void start_refused(Office *o, const char *error, const char *part)
{
	Answer a = { 0 };

	private_bus_ask(o->b, o->nobody, &a, NULL, NULL, "StartSession", "s", "flight");
	g_assert_cmpstr(a.error, ==, error);
	if (!strstr(a.text, part))
		g_error("'%s' does not say '%s'", a.text, part);
	g_assert_false(running(o));
	answer_clear(&a);
}

static void start_allowed(Office *o, sd_bus *from)
{
	Answer a = { 0 };

	private_bus_ask(o->b, from, &a, NULL, NULL, "StartSession", "s", "flight");
	if (a.error)
		g_error("%s", a.text);
	g_assert_true(running(o));
	answer_clear(&a);
}

static void absent(Office *o)
{
	office_open(o, false);
	start_refused(o, SD_BUS_ERROR_ACCESS_DENIED, "group 'tracing'");
	start_allowed(o, NULL); /* root */
}

static void absent_and_a_member(Office *o)
{
	sd_bus *member;

	office_open(o, false);
	member = private_bus_connect(o->b, DAEMON, accounts_tracing());
	start_allowed(o, member);
	sd_bus_detach_event(member);
	sd_bus_close_unref(member);
}

static void allow(Office *o)
{
	Answer a = { 0 };
	const char *name;

	office_open(o, true);
	o->mood = ALLOW;
	start_allowed(o, o->nobody);
	g_assert_cmpuint(o->n_asked, ==, 1);
	g_assert_cmpstr(o->action, ==, "org.tracer.Tracer1.manage");
	g_assert_cmpstr(o->session, ==, "flight");
	g_assert_cmpuint(o->flags, ==, 0);
	g_assert_cmpint(sd_bus_get_unique_name(o->nobody, &name), >=, 0);
	g_assert_cmpstr(o->subject, ==, name);
	/* every call is asked about anew */
	private_bus_ask(o->b, o->nobody, &a, BUS_SESSION_PREFIX "/flight", BUS_SESSION_INTERFACE, "Snapshot",
			"sa{sv}", "why", 0);
	g_assert_cmpstr(a.error, ==, NULL);
	g_assert_cmpuint(o->n_asked, ==, 2);
	g_assert_cmpstr(o->action, ==, "org.tracer.Tracer1.snapshot");
	private_bus_ask(o->b, o->nobody, &a, NULL, NULL, "SnapshotAll", "s", "why");
	g_assert_cmpstr(a.error, ==, NULL);
	g_assert_cmpstr(o->action, ==, "org.tracer.Tracer1.snapshot");
	private_bus_ask(o->b, o->nobody, &a, NULL, NULL, "CreateSession", "sa{sv}", "new", 1, "memory", "s", "4M");
	g_assert_cmpstr(a.error, ==, NULL);
	g_assert_cmpstr(o->action, ==, "org.tracer.Tracer1.manage");
	g_assert_cmpstr(o->session, ==, "new");
	private_bus_ask(o->b, o->nobody, &a, NULL, NULL, "Reload", NULL);
	g_assert_cmpstr(a.error, ==, NULL);
	private_bus_ask(o->b, o->nobody, &a, BUS_SESSION_PREFIX "/flight", BUS_SESSION_INTERFACE, "SetEvents", "as",
			1, "a:*");
	g_assert_cmpstr(a.error, ==, NULL);
	private_bus_ask(o->b, o->nobody, &a, NULL, NULL, "RemoveSession", "s", "new");
	g_assert_cmpstr(a.error, ==, NULL);
	/* read twice, since polkit is asked in between: still the settings that were sent */
	private_bus_ask(o->b, o->nobody, &a, BUS_SESSION_PREFIX "/flight", BUS_SESSION_INTERFACE, "Configure", "a{sv}",
			1, "io", "s", "write");
	g_assert_cmpstr(a.error, ==, NULL);
	g_assert_cmpstr(o->action, ==, "org.tracer.Tracer1.manage");
	g_assert_cmpstr(o->session, ==, "flight");
	private_bus_ask(o->b, o->nobody, &a, NULL, NULL, "RotateSession", "s", "flight");
	g_assert_cmpstr(a.error, ==, NULL);
	g_assert_cmpstr(o->action, ==, "org.tracer.Tracer1.snapshot");
	g_assert_cmpuint(o->n_asked, ==, 9);
	/* looking, and root, are not asked about */
	private_bus_ask(o->b, o->nobody, &a, NULL, NULL, "ListSessions", NULL);
	private_bus_ask(o->b, NULL, &a, NULL, NULL, "StopSession", "s", "flight");
	g_assert_cmpstr(a.error, ==, NULL);
	g_assert_cmpuint(o->n_asked, ==, 9);
	answer_clear(&a);
}

static void deny(Office *o)
{
	office_open(o, true);
	o->mood = DENY;
	start_refused(o, SD_BUS_ERROR_ACCESS_DENIED, "org.tracer.Tracer1.manage");
	start_allowed(o, NULL);
}

/* Where there is a polkit, it decides, and the group is nothing. */
static void deny_a_member(Office *o)
{
	sd_bus *member;

	office_open(o, true);
	o->mood = DENY;
	member = o->nobody;
	o->nobody = private_bus_connect(o->b, DAEMON, accounts_tracing());
	start_refused(o, SD_BUS_ERROR_ACCESS_DENIED, "polkit");
	sd_bus_detach_event(member);
	sd_bus_close_unref(member);
}

static void challenge(Office *o)
{
	office_open(o, true);
	o->mood = CHALLENGE;
	start_refused(o, SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED, "password");
	g_assert_cmpuint(o->flags, ==, 0);
	g_assert_cmpint(sd_bus_set_allow_interactive_authorization(o->nobody, true), >=, 0);
	o->mood = ALLOW;
	start_allowed(o, o->nobody);
	g_assert_cmpuint(o->flags, ==, 1);
}

static void nonsense(Office *o)
{
	office_open(o, true);
	o->mood = NONSENSE;
	start_refused(o, SD_BUS_ERROR_ACCESS_DENIED, "no sense");
	o->mood = FAIL;
	start_refused(o, SD_BUS_ERROR_ACCESS_DENIED, "no idea");
}

static void hold(Office *o, Answer *a)
{
	o->mood = HOLD;
	o->asked = false;
	private_bus_call(o->nobody, a, NULL, NULL, "StartSession", "s", "flight");
	private_bus_await(o->b, &o->asked);
}

static void slow(Office *o)
{
	Answer a = { 0 }, other = { 0 };

	office_open(o, true);
	hold(o, &a);
	/* everybody else is served, the same caller too */
	private_bus_ask(o->b, NULL, &other, NULL, NULL, "ListSessions", NULL);
	private_bus_ask(o->b, o->nobody, &other, NULL, NULL, "ListSessions", NULL);
	g_assert_cmpstr(other.error, ==, NULL);
	g_assert_false(a.done);
	g_assert_false(running(o));
	g_assert_cmpint(polkit_reply(o->held[0], true, false), >=, 0);
	private_bus_await(o->b, &a.done);
	g_assert_cmpstr(a.error, ==, NULL);
	g_assert_true(running(o));
	answer_clear(&a);
	answer_clear(&other);
}

static void session_goes_meanwhile(Office *o)
{
	Answer a = { 0 }, object = { 0 }, other = { 0 };

	office_open(o, true);
	hold(o, &a);
	o->asked = false;
	private_bus_call(o->nobody, &object, BUS_SESSION_PREFIX "/flight", BUS_SESSION_INTERFACE, "Stop", NULL);
	private_bus_await(o->b, &o->asked);
	private_bus_ask(o->b, NULL, &other, NULL, NULL, "RemoveSession", "s", "flight");
	g_assert_cmpint(polkit_reply(o->held[0], true, false), >=, 0);
	g_assert_cmpint(polkit_reply(o->held[1], true, false), >=, 0);
	private_bus_await(o->b, &a.done);
	private_bus_await(o->b, &object.done);
	g_assert_cmpstr(a.error, ==, ERROR_NO_SUCH_SESSION);
	g_assert_cmpstr(object.error, ==, SD_BUS_ERROR_UNKNOWN_OBJECT);
	answer_clear(&a);
	answer_clear(&object);
	answer_clear(&other);
}

static void caller_goes_meanwhile(Office *o)
{
	Answer a = { 0 };

	office_open(o, true);
	hold(o, &a);
	nobody_leaves(o);
	private_bus_await(o->b, &o->cancelled);
	g_assert_cmpuint(o->n_cancelled, ==, 1);
	/* too late an answer does nothing */
	g_assert_cmpint(polkit_reply(o->held[0], true, false), >=, 0);
	answer_clear(&a);
	private_bus_ask(o->b, NULL, &a, NULL, NULL, "ListSessions", NULL);
	g_assert_false(running(o));
	answer_clear(&a);
}

static void polkit_goes_meanwhile(Office *o)
{
	Answer a = { 0 };

	office_open(o, true);
	hold(o, &a);
	polkit_close(o);
	private_bus_await(o->b, &a.done);
	g_assert_cmpstr(a.error, ==, SD_BUS_ERROR_ACCESS_DENIED);
	g_assert_false(running(o));
	answer_clear(&a);
}

static void service_goes_meanwhile(Office *o)
{
	Answer a = { 0 };

	office_open(o, true);
	hold(o, &a);
	o->b->service = bus_free(o->b->service);
	private_bus_await(o->b, &a.done);
	g_assert_cmpstr(a.error, ==, SD_BUS_ERROR_NO_REPLY);
	answer_clear(&a);
}

static void limits(Office *o)
{
	Answer answers[40] = { 0 };
	sd_bus *second;
	unsigned n_refused = 0;

	office_open(o, true);
	o->mood = HOLD;
	second = private_bus_connect(o->b, NOBODY, 0);
	for (size_t i = 0; i < 20; i++)
		private_bus_call(o->nobody, &answers[i], NULL, NULL, "StartSession", "s", "flight");
	/* the last four have no room */
	for (size_t i = 16; i < 20; i++) {
		private_bus_await(o->b, &answers[i].done);
		g_assert_cmpstr(answers[i].error, ==, SD_BUS_ERROR_LIMITS_EXCEEDED);
	}
	/* a second connection of the same user has, up to the user's limit */
	for (size_t i = 20; i < 36; i++)
		private_bus_call(second, &answers[i], NULL, NULL, "StartSession", "s", "flight");
	while (o->n_held < 32)
		g_assert_cmpint(sd_event_run(o->b->event, UINT64_MAX), >=, 0);
	/* and root always */
	private_bus_ask(o->b, NULL, &answers[39], NULL, NULL, "CreateSession", "sa{sv}", "x", 0);
	g_assert_cmpstr(answers[39].error, ==, NULL);
	for (unsigned i = 0; i < o->n_held; i++)
		g_assert_cmpint(polkit_reply(o->held[i], false, false), >=, 0);
	for (size_t i = 0; i < 36; i++) {
		private_bus_await(o->b, &answers[i].done);
		g_assert_nonnull(answers[i].error);
		n_refused += strcmp(answers[i].error, SD_BUS_ERROR_ACCESS_DENIED) == 0;
	}
	g_assert_cmpuint(n_refused, ==, 32);
	for (size_t i = 0; i < G_N_ELEMENTS(answers); i++)
		answer_clear(&answers[i]);
	/* all is free again */
	o->mood = ALLOW;
	start_allowed(o, second);
	sd_bus_detach_event(second);
	sd_bus_close_unref(second);
}

static const struct {
	const char *path;
	void (*run)(Office *o);
} cases[] = {
	{ "/polkit/absent", absent },
	{ "/polkit/absent-and-a-member", absent_and_a_member },
	{ "/polkit/allow", allow },
	{ "/polkit/deny", deny },
	{ "/polkit/deny-a-member", deny_a_member },
	{ "/polkit/challenge", challenge },
	{ "/polkit/nonsense", nonsense },
	{ "/polkit/slow", slow },
	{ "/polkit/session-goes-meanwhile", session_goes_meanwhile },
	{ "/polkit/caller-goes-meanwhile", caller_goes_meanwhile },
	{ "/polkit/polkit-goes-meanwhile", polkit_goes_meanwhile },
	{ "/polkit/service-goes-meanwhile", service_goes_meanwhile },
	{ "/polkit/limits", limits },
};

static void run(gconstpointer data)
{
	Office o = { 0 };

	if (!accounts_there()) {
		g_test_skip("needs root");
		return;
	}
	((void (*)(Office *))data)(&o);
	office_close(&o);
}

int main(int argc, char **argv)
{
	accounts_prepare();
	g_test_init(&argc, &argv, NULL);
	for (size_t i = 0; i < G_N_ELEMENTS(cases); i++)
		g_test_add_data_func(cases[i].path, (gconstpointer)cases[i].run, run);
	return g_test_run();
}
