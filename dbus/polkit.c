/* SPDX-License-Identifier: MIT */
/* polkit's CheckAuthorization over plain sd-bus.
 *
 * One Question goes through: STEP_WHO (the bus daemon is asked for the sender's credentials; those are the kernel's, taken
 * when the sender connected; /proc is never looked at) -> STEP_POLKIT -> STEP_ANSWERED (the message waits in the queue
 * for its second dispatch). Unique names are never used twice on one bus, so what was learnt about a sender
 * stays true until the answer. A second dispatch that does not come to us (the object is gone, say) leaves its verdict
 * behind; an idle source sweeps those. */
#include "dbus/polkit.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "dbus/credentials.h"
#include "systemd/journal.h"

#define POLKIT_NAME	 "org.freedesktop.PolicyKit1"
#define POLKIT_PATH	 "/org/freedesktop/PolicyKit1/Authority"
#define POLKIT_INTERFACE "org.freedesktop.PolicyKit1.Authority"

/* An answer without a person is a matter of milliseconds; a person needs time to find the password. */
#define TIMEOUT_USEC		 (25 * 1000000ull)
#define TIMEOUT_INTERACTIVE_USEC (5 * 60 * 1000000ull)

static const char too_many[] =
	"Too many requests wait for authorisation; try again when they are answered";

typedef struct Question Question;
struct Question {
	Authority *authority;
	Question *next;
	sd_bus_message *message; /* owned reference */
	char *action, *session;	 /* session may be NULL */
	char *peer;		 /* unique name; "" on a connection without a bus */
	sd_bus_slot *slot;	 /* of the call that is out */
	sd_bus_track *track;	 /* the peer, while polkit thinks */
	char cancellation[32];
	uid_t uid;		 /* known from STEP_POLKIT on */
	bool in_group, asked;

	enum { STEP_WHO, STEP_POLKIT, STEP_ANSWERED } step;
	sd_bus_error verdict; /* STEP_ANSWERED; unset: yes */
};

struct Authority {
	sd_event_source *sweep;
	Question *questions;
	unsigned n_pending;
	u64 n_asked; /* ever: makes cancellation ids unique */
	bool ask;
	bool complained; /* the absence of polkit is in the log */
};

static Question *question_free(Question *q)
{
	if (!q)
		return NULL;
	for (Question **p = &q->authority->questions; *p; p = &(*p)->next)
		if (*p == q) {
			*p = q->next;
			q->authority->n_pending--;
			break;
		}
	sd_bus_slot_unref(q->slot);
	sd_bus_track_unref(q->track);
	sd_bus_message_unref(q->message);
	sd_bus_error_free(&q->verdict);
	free(q->action);
	free(q->session);
	free(q->peer);
	free(q);
	return NULL;
}
DEFINE_CLEANUP(Question *, question_free)

static int on_sweep(sd_event_source *source, void *userdata)
{
	Authority *a = userdata;

	for (Question *q = a->questions, *next; q; q = next) {
		next = q->next;
		if (q->step == STEP_ANSWERED)
			question_free(q);
	}
	return 0;
}

int authority_new(Authority **ret, sd_event *event, bool ask)
{
	_cleanup_(authority_freep) Authority *a = NULL;
	int r;

	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->ask = ask;
	r = sd_event_add_defer(event, &a->sweep, on_sweep, a);
	if (r < 0)
		return r;
	/* behind the bus: a verdict is swept only when its message had its turn */
	r = sd_event_source_set_priority(a->sweep, SD_EVENT_PRIORITY_IDLE);
	if (r < 0)
		return r;
	(void)sd_event_source_set_description(a->sweep, "bus-verdicts");
	r = sd_event_source_set_enabled(a->sweep, SD_EVENT_OFF);
	if (r < 0)
		return r;
	*ret = steal_ptr(a);
	return 0;
}

Authority *authority_free(Authority *a)
{
	if (!a)
		return NULL;
	while (a->questions)
		question_free(a->questions);
	sd_event_source_disable_unref(a->sweep);
	free(a);
	return NULL;
}

unsigned authority_n_pending(const Authority *a)
{
	return a->n_pending;
}

/* Puts the message back into the queue with the verdict in q->verdict. */
static void question_answer(Question *q)
{
	int r;

	q->slot = sd_bus_slot_unref(q->slot);
	q->track = sd_bus_track_unref(q->track);
	q->step = STEP_ANSWERED;
	(void)sd_event_source_set_enabled(q->authority->sweep, SD_EVENT_ONESHOT);
	r = sd_bus_message_rewind(q->message, true);
	if (r >= 0)
		r = sd_bus_enqueue_for_read(sd_bus_message_get_bus(q->message), q->message);
	if (r < 0) {
		log_warning("Could not take up a method call again after it was authorised: %s", strerror(-r));
		(void)sd_bus_reply_method_errno(q->message, r, NULL);
		question_free(q);
	}
}

static void question_deny(Question *q, const char *name, const char *format, ...) _printf_(3, 4);
static void question_deny(Question *q, const char *name, const char *format, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	(void)sd_bus_error_set(&q->verdict, name, text);
	question_answer(q);
}

static void question_decide_without_polkit(Question *q)
{
	if (q->in_group)
		question_answer(q);
	else
		question_deny(q, SD_BUS_ERROR_ACCESS_DENIED,
			      "Permission denied: become root or a member of group '%s'%s", POLKIT_GROUP,
			      q->asked ? " (polkit, which could ask for a password, is not there)" : "");
}

/* Is polkit not there at all, as opposed to there and refusing or silent? */
static bool polkit_absent(const sd_bus_error *e)
{
	static const char *const names[] = {
		SD_BUS_ERROR_SERVICE_UNKNOWN,
		SD_BUS_ERROR_NAME_HAS_NO_OWNER,
		"org.freedesktop.systemd1.UnitMasked",
		"org.freedesktop.systemd1.NoSuchUnit",
		"org.freedesktop.DBus.Error.Spawn.ServiceNotFound",
		"org.freedesktop.DBus.Error.Spawn.ServiceNotValid",
	};

	for (size_t i = 0; i < ELEMENTSOF(names); i++)
		if (sd_bus_error_has_name(e, names[i]))
			return true;
	return false;
}

static int on_polkit(sd_bus_message *reply, void *userdata, sd_bus_error *unused)
{
	Question *q = userdata;
	const sd_bus_error *e = sd_bus_message_get_error(reply);
	int authorized = 0, challenge = 0, r;

	if (e && polkit_absent(e)) {
		if (!q->authority->complained)
			log_info("No polkit here (%s): root and group '%s' may control tracing",
				 e->message ? e->message : e->name, POLKIT_GROUP);
		q->authority->complained = true;
		question_decide_without_polkit(q);
		return 1;
	}
	if (e) {
		log_warning("polkit could not decide about %s of %s: %s", q->action, q->peer,
			    e->message ? e->message : e->name);
		question_deny(q, SD_BUS_ERROR_ACCESS_DENIED,
			      "Permission denied: polkit could not decide about %s (%s)", q->action,
			      e->message ? e->message : e->name);
		return 1;
	}
	r = sd_bus_message_enter_container(reply, 'r', "bba{ss}");
	if (r >= 0)
		r = sd_bus_message_read(reply, "bb", &authorized, &challenge);
	if (r < 0)
		question_deny(q, SD_BUS_ERROR_ACCESS_DENIED,
			      "Permission denied: the answer of polkit about %s makes no sense", q->action);
	else if (authorized)
		question_answer(q);
	else if (challenge)
		question_deny(q, SD_BUS_ERROR_INTERACTIVE_AUTHORIZATION_REQUIRED,
			      "A password is needed for %s, and the caller did not allow to be asked for one",
			      q->action);
	else
		question_deny(q, SD_BUS_ERROR_ACCESS_DENIED,
			      "Permission denied: polkit does not allow you %s; ask root for it, or for a rule",
			      q->action);
	return 1;
}

/* The peer left the bus: nobody waits for the answer, and polkit need not go on asking for passwords. */
static int on_peer_gone(sd_bus_track *track, void *userdata)
{
	Question *q = userdata;
	sd_bus *bus = sd_bus_track_get_bus(track);

	(void)sd_bus_call_method_async(bus, NULL, POLKIT_NAME, POLKIT_PATH, POLKIT_INTERFACE,
				       "CancelCheckAuthorization", NULL, NULL, "s", q->cancellation);
	question_free(q);
	return 0;
}

static int question_append(Question *q, sd_bus_message *call)
{
	int r;

	r = sd_bus_message_append(call, "(sa{sv})s", "system-bus-name", 1, "name", "s", q->peer, q->action);
	if (r < 0)
		return r;
	r = sd_bus_message_append(call, "a{ss}", q->session ? 1 : 0, "session", q->session);
	if (r < 0)
		return r;
	/* bit 0: polkit may ask the user */
	return sd_bus_message_append(call, "us",
				     sd_bus_message_get_allow_interactive_authorization(q->message) > 0,
				     q->cancellation);
}

static int question_ask_polkit(Question *q)
{
	__attribute__((cleanup(sd_bus_message_unrefp))) sd_bus_message *call = NULL;
	sd_bus *bus = sd_bus_message_get_bus(q->message);
	bool interactive = sd_bus_message_get_allow_interactive_authorization(q->message) > 0;
	int r;

	q->slot = sd_bus_slot_unref(q->slot);
	q->step = STEP_POLKIT;
	q->asked = true;
	(void)snprintf(q->cancellation, sizeof(q->cancellation), "tracer-%" PRIu64, ++q->authority->n_asked);
	r = sd_bus_track_new(bus, &q->track, on_peer_gone, q);
	if (r < 0)
		return r;
	r = sd_bus_track_add_sender(q->track, q->message);
	if (r < 0)
		return r;
	r = sd_bus_message_new_method_call(bus, &call, POLKIT_NAME, POLKIT_PATH, POLKIT_INTERFACE,
					   "CheckAuthorization");
	if (r < 0)
		return r;
	r = question_append(q, call);
	if (r < 0)
		return r;
	return sd_bus_call_async(bus, &q->slot, call, on_polkit, q,
				 interactive ? TIMEOUT_INTERACTIVE_USEC : TIMEOUT_USEC);
}

static bool uid_passes(uid_t uid)
{
	return uid == 0 || uid == geteuid();
}

/* Knows who the sender is, and goes on from there. */
static void question_identify(Question *q, uid_t uid, bool in_group)
{
	unsigned n = 0;
	int r;

	q->in_group = in_group;
	q->uid = uid;
	if (uid_passes(uid)) {
		question_answer(q);
		return;
	}
	if (!q->authority->ask) {
		question_decide_without_polkit(q);
		return;
	}
	for (Question *other = q->authority->questions; other; other = other->next)
		n += other->step == STEP_POLKIT && other->uid == uid;
	if (n >= POLKIT_PENDING_MAX_PER_USER) {
		question_deny(q, SD_BUS_ERROR_LIMITS_EXCEEDED, "%s", too_many);
		return;
	}
	r = question_ask_polkit(q);
	if (r < 0)
		question_deny(q, SD_BUS_ERROR_ACCESS_DENIED, "Permission denied: could not ask polkit: %s",
			      strerror(-r));
}

static int on_credentials(sd_bus_message *reply, void *userdata, sd_bus_error *unused)
{
	Question *q = userdata;
	const sd_bus_error *e = sd_bus_message_get_error(reply);
	bool in_group = false;
	uid_t uid = (uid_t)-1;
	int r;

	if (e && sd_bus_error_has_name(e, SD_BUS_ERROR_NAME_HAS_NO_OWNER)) {
		question_free(q); /* gone; nobody waits */
		return 1;
	}
	r = e ? -EACCES : credentials_read(reply, POLKIT_GROUP, &uid, &in_group);
	if (r < 0)
		question_deny(q, SD_BUS_ERROR_ACCESS_DENIED,
			      "Permission denied: the bus does not say who you are (%s)",
			      e && e->message ? e->message : strerror(-r));
	else
		question_identify(q, uid, in_group);
	return 1;
}

/* A connection without a bus in between: the kernel says who is at its other end. */
static int peer_identify(sd_bus_message *m, sd_bus_error *error)
{
	__attribute__((cleanup(sd_bus_creds_unrefp))) sd_bus_creds *creds = NULL;
	uid_t uid;
	int r;

	r = sd_bus_get_owner_creds(sd_bus_message_get_bus(m), SD_BUS_CREDS_EUID, &creds);
	if (r >= 0)
		r = sd_bus_creds_get_euid(creds, &uid);
	if (r >= 0 && uid_passes(uid))
		return 1;
	return sd_bus_error_setf(error, SD_BUS_ERROR_ACCESS_DENIED,
				 "Permission denied: only root and the owner of tracerd may do that here");
}

static Question *question_find(Authority *a, sd_bus_message *m)
{
	for (Question *q = a->questions; q; q = q->next)
		if (q->message == m)
			return q;
	return NULL;
}

static int verdict_take(Question *verdict, const char *action, const char *session, sd_bus_error *error)
{
	_cleanup_(question_freep) Question *q = verdict;

	if (q->step != STEP_ANSWERED || strcmp(q->action, action) != 0 ||
	    strcmp(q->session ? q->session : "", session ? session : "") != 0)
		return sd_bus_error_setf(error, SD_BUS_ERROR_ACCESS_DENIED,
					 "Permission denied: that was not what was asked for");
	if (sd_bus_error_is_set(&q->verdict))
		return sd_bus_error_copy(error, &q->verdict);
	return 1;
}

static int room_check(Authority *a, const char *peer, sd_bus_error *error)
{
	unsigned n = 0;

	for (Question *q = a->questions; q; q = q->next)
		n += strcmp(q->peer, peer) == 0;
	if (n >= POLKIT_PENDING_MAX_PER_PEER || a->n_pending >= POLKIT_PENDING_MAX)
		return sd_bus_error_set(error, SD_BUS_ERROR_LIMITS_EXCEEDED, too_many);
	return 0;
}

int authority_check(Authority *a, sd_bus_message *m, const char *action, const char *session, sd_bus_error *error)
{
	_cleanup_(question_freep) Question *q = question_find(a, m);
	const char *peer = sd_bus_message_get_sender(m);
	int r;

	if (q)
		return verdict_take(steal_ptr(q), action, session, error);
	if (!peer)
		return peer_identify(m, error);
	r = room_check(a, peer, error);
	if (r < 0)
		return r;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	q->authority = a;
	q->action = strdup(action);
	q->session = session ? strdup(session) : NULL;
	q->peer = strdup(peer);
	if (!q->action || !q->peer || (session && !q->session))
		return -ENOMEM;
	q->message = sd_bus_message_ref(m);
	r = sd_bus_call_method_async(sd_bus_message_get_bus(m), &q->slot, "org.freedesktop.DBus",
				     "/org/freedesktop/DBus", "org.freedesktop.DBus",
				     "GetConnectionCredentials", on_credentials, q, "s", peer);
	if (r < 0)
		return r;
	q->next = a->questions;
	a->questions = steal_ptr(q);
	a->n_pending++;
	return 0;
}
